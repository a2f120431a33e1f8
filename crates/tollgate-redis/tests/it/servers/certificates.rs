//! A certificate authority, a certificate of the server and one of a client, as files.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::server::{Server, directory, free_port};

/// Files in PEM form, gone when dropped.
#[derive(Debug)]
pub(crate) struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    pub(crate) fn new() -> Certificates {
        let certificates = Certificates { dir: directory() };
        certificates.write().unwrap_or_else(|error| panic!("a certificate: {error}"));
        certificates
    }

    fn write(&self) -> Result<(), Box<dyn std::error::Error>> {
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
            let signed = params.signed_by(&key, &ca)?;
            std::fs::write(self.file(&format!("{name}.crt")), signed.pem())?;
            std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem())?;
        }
        Ok(())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn name(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// A server that speaks nothing but TLS, and its address.
    pub(crate) fn start_server(&self, client_certificate: bool) -> (Server, String) {
        let port = free_port();
        let (args, cli) = (self.server_args(port, client_certificate), self.cli_args());
        let server = Server::start_tls(port, args, cli);
        (server, format!("rediss://127.0.0.1:{port}/"))
    }

    fn server_args(&self, port: u16, client_certificate: bool) -> Vec<String> {
        let ask = if client_certificate { "yes" } else { "no" };
        [
            ("--port", "0".to_owned()),
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", self.name("server.crt")),
            ("--tls-key-file", self.name("server.key")),
            ("--tls-ca-cert-file", self.name("ca.crt")),
            ("--tls-auth-clients", ask.to_owned()),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }

    /// What `redis-cli` needs to talk to it.
    pub(crate) fn cli_args(&self) -> Vec<String> {
        let mut args = vec!["--tls".to_owned()];
        for (option, file) in
            [("--cacert", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")]
        {
            args.extend([option.to_owned(), self.name(file)]);
        }
        args
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
