//! Certificates that are read from files, and read again when the files change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Expiry;

/// The files of a certificate, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// CA certificates of clients. If set, a client must present a certificate.
    pub client_ca: Option<PathBuf>,
}

/// The certificates of a port.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    protocols: Vec<Vec<u8>>,
    in_use: ArcSwap<InUse>,
    /// The files as they were read last, valid or not.
    read: Mutex<Contents>,
}

/// The configuration for new connections.
#[derive(Debug)]
struct InUse {
    config: Arc<ServerConfig>,
    expiry: Result<Expiry, String>,
}

/// The contents of the files.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files. `protocols` are those that a client may choose from (ALPN).
    ///
    /// # Errors
    /// When a file cannot be read, or the files do not belong together.
    pub fn load(files: TlsFiles, protocols: &[&str]) -> Result<Tls, String> {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let contents = Contents::read(&files)?;
        let in_use = contents.load(&files, &protocols)?;
        Ok(Tls { files, protocols, in_use: ArcSwap::from_pointee(in_use), read: contents.into() })
    }

    /// Reads the files again; true if they had changed. Open connections keep their certificate.
    ///
    /// # Errors
    /// When the new files are not valid. The old certificate stays, and the same files are reported
    /// only once.
    pub fn reload(&self) -> Result<bool, String> {
        let contents = Contents::read(&self.files)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if *read == contents {
            return Ok(false);
        }
        let in_use = contents.load(&self.files, &self.protocols);
        *read = contents;
        self.in_use.store(Arc::new(in_use?));
        Ok(true)
    }

    /// Whether clients must present a certificate.
    #[must_use]
    pub fn asks_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// The file of the certificate.
    pub(crate) fn certificate(&self) -> &Path {
        &self.files.certificate
    }

    /// When the certificate in use expires, or why that cannot be read.
    pub(crate) fn expiry(&self) -> Result<Expiry, String> {
        self.in_use.load().expiry.clone()
    }

    /// Does the TLS handshake.
    ///
    /// # Errors
    /// When the handshake fails, the client presents no certificate although it must, or it takes
    /// too long.
    pub async fn accept(
        &self,
        socket: TcpStream,
        within: Duration,
    ) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.in_use.load().config));
        tokio::time::timeout(within, acceptor.accept(socket)).await?
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Contents, String> {
        let TlsFiles { certificate, key, client_ca } = files;
        let client_ca = client_ca.as_deref().map(read).transpose()?;
        Ok(Contents { certificate: read(certificate)?, key: read(key)?, client_ca })
    }

    fn load(&self, files: &TlsFiles, protocols: &[Vec<u8>]) -> Result<InUse, String> {
        let certificate = certificates(&files.certificate, &self.certificate)?;
        let expiry = Expiry::of(&certificate[0]);
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| format!("{}: no private key in it: {error}", files.key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(contents)) => {
                let wrong = |error: String| format!("{}: {error}", path.display());
                let mut roots = RootCertStore::empty();
                for root in certificates(path, contents)? {
                    roots.add(root).map_err(|error| wrong(error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| wrong(error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
            _ => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(certificate, key).map_err(|error| {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            format!("{certificate} with {key}: {error}")
        })?;
        config.alpn_protocols = protocols.to_vec();
        Ok(InUse { config: Arc::new(config), expiry })
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The certificates of a file, at least one.
pub(super) fn certificates(
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(format!("{}: no certificate in it", path.display())),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_testservers::Certificates;

    fn files(certificates: &Certificates) -> TlsFiles {
        TlsFiles {
            certificate: certificates.file("server.crt"),
            key: certificates.file("server.key"),
            client_ca: Some(certificates.file("ca.crt")),
        }
    }

    #[test]
    fn a_broken_file_keeps_the_old_certificate_and_is_reported_once() {
        let (certificates, others) = (Certificates::new(), Certificates::new());
        let tls = Tls::load(files(&certificates), &["h2"]).unwrap();
        assert_eq!(tls.reload(), Ok(false));
        let first = Arc::as_ptr(&tls.in_use.load_full());
        std::fs::copy(others.file("server.crt"), certificates.file("server.crt")).unwrap();
        let error = tls.reload().unwrap_err();
        assert!(error.contains("server.crt") && error.contains("server.key"), "{error}");
        assert_eq!(tls.reload(), Ok(false), "the same files");
        assert_eq!(Arc::as_ptr(&tls.in_use.load_full()), first);
        std::fs::copy(others.file("server.key"), certificates.file("server.key")).unwrap();
        assert_eq!(tls.reload(), Ok(true));
        assert_ne!(Arc::as_ptr(&tls.in_use.load_full()), first);
    }

    #[test]
    fn errors_name_the_file() {
        let certificates = Certificates::new();
        let swapped = TlsFiles { key: certificates.file("client.key"), ..files(&certificates) };
        let none = TlsFiles { key: certificates.file("nobody.key"), ..files(&certificates) };
        let no_key = TlsFiles { key: certificates.file("server.crt"), ..files(&certificates) };
        let no_ca =
            TlsFiles { client_ca: Some(certificates.file("server.key")), ..files(&certificates) };
        for (files, expected) in [
            (swapped, "client.key"),
            (none, "nobody.key: "),
            (no_key, "server.crt: no private key in it"),
            (no_ca, "server.key: no certificate in it"),
        ] {
            let error = Tls::load(files, &[]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
