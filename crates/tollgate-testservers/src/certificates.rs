//! A certificate authority with one server certificate and one client certificate, as files.

use std::path::PathBuf;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::Directory;

/// PEM files, deleted on drop: `ca.crt`, `server.crt` and `server.key` (for 127.0.0.1),
/// `client.crt` and `client.key`.
#[derive(Debug)]
pub struct Certificates {
    dir: Directory,
}

impl Certificates {
    /// Makes a new authority and its certificates.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[expect(clippy::new_without_default, reason = "it writes files")]
    #[must_use]
    pub fn new() -> Certificates {
        Certificates::written(None)
    }

    /// Like [`new`](Certificates::new), but both certificates expire at this time, in seconds since
    /// the Unix epoch.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[must_use]
    pub fn expiring_at(seconds: u64) -> Certificates {
        Certificates::written(Some(seconds))
    }

    fn written(expiry: Option<u64>) -> Certificates {
        let certificates = Certificates { dir: Directory::new() };
        certificates.write(expiry).unwrap_or_else(|error| panic!("a certificate: {error}"));
        certificates
    }

    fn write(&self, expiry: Option<u64>) -> Result<(), Box<dyn std::error::Error>> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        std::fs::write(self.file("ca.crt"), params.self_signed(&key)?.pem())?;
        let ca = Issuer::new(params, key);
        for (name, subject) in [("server", "127.0.0.1"), ("client", "client.example.org")] {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(vec![subject.to_owned()])?;
            params.distinguished_name.push(DnType::CommonName, name);
            if let Some(seconds) = expiry {
                params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
            }
            let signed = params.signed_by(&key, &ca)?;
            std::fs::write(self.file(&format!("{name}.crt")), signed.pem())?;
            std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem())?;
        }
        Ok(())
    }

    /// The path of a file.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The path of a file as text, for arguments of programs.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}
