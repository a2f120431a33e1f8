//! Certificates of the ports.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::net::TlsFiles;
use crate::observe::Protocol;

/// Certificates for all ports and for single ports, as PEM files.
///
/// ```
/// use tollgate_server::observe::Protocol;
/// use tollgate_server::settings::TlsSettings;
/// let tls: TlsSettings = toml::from_str(r#"
/// certificate = "server.crt"
/// key = "server.key"
/// client_ca = "clients.crt"
/// [admin]
/// off = true
/// "#)?;
/// assert!(tls.files(Protocol::Grpc)?.is_some_and(|files| files.client_ca.is_some()));
/// assert_eq!(tls.files(Protocol::Admin)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// The certificate and its intermediate certificates.
    pub certificate: Option<PathBuf>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// Certificate authorities of clients. If set, a client must present a certificate.
    pub client_ca: Option<PathBuf>,
    /// Settings of the HTTP port.
    pub http: PortTlsSettings,
    /// Settings of the gRPC port.
    pub grpc: PortTlsSettings,
    /// Settings of the RESP port.
    pub resp: PortTlsSettings,
    /// Settings of the admin port.
    pub admin: PortTlsSettings,
}

/// Settings of one port that override those of all ports.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct PortTlsSettings {
    /// Turns TLS off for this port.
    pub off: bool,
    /// The certificate of this port, instead of the one for all ports.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// The authorities that sign client certificates, in place of those of all ports.
    pub client_ca: Option<PathBuf>,
}

impl TlsSettings {
    /// The files of a port; `None` if it has no TLS.
    ///
    /// # Errors
    /// When something is missing.
    pub fn files(&self, protocol: Protocol) -> Result<Option<TlsFiles>, String> {
        let port = self.port(protocol);
        if port.off {
            return Ok(None);
        }
        let (certificate, key) = self.pair(port);
        let client_ca = port.client_ca.as_ref().or(self.client_ca.as_ref()).cloned();
        match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                Ok(Some(TlsFiles { certificate, key, client_ca }))
            }
            (None, None) if client_ca.is_none() => Ok(None),
            (certificate, _) => {
                let missing = if certificate.is_none() { "certificate" } else { "key" };
                Err(format!("tls: {}: no {missing}", protocol.name()))
            }
        }
    }

    /// The certificate of a port. Its key may be given elsewhere, by a flag or the environment.
    pub(crate) fn certificate(&self, protocol: Protocol) -> Option<&Path> {
        let port = self.port(protocol);
        self.pair(port).0.as_deref().filter(|_| !port.off)
    }

    fn port(&self, protocol: Protocol) -> &PortTlsSettings {
        match protocol {
            Protocol::Http => &self.http,
            Protocol::Grpc => &self.grpc,
            Protocol::Resp => &self.resp,
            Protocol::Admin => &self.admin,
        }
    }

    /// The certificate and the key are taken from the same level.
    fn pair<'a>(&'a self, port: &'a PortTlsSettings) -> (&'a Option<PathBuf>, &'a Option<PathBuf>) {
        match (&port.certificate, &port.key) {
            (None, None) => (&self.certificate, &self.key),
            own => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        for (text, expected) in [
            ("certificate = 'a'", "tls: resp: no key"),
            ("key = 'a'", "tls: resp: no certificate"),
            ("client_ca = 'a'", "tls: resp: no certificate"),
            ("certificate = 'a'\nkey = 'b'\n[resp]\ncertificate = 'c'", "tls: resp: no key"),
        ] {
            let settings: TlsSettings = toml::from_str(text).unwrap();
            assert_eq!(settings.files(Protocol::Resp).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn a_port_can_have_its_own_certificate() {
        let text = "certificate = 'a'\nkey = 'b'\n[resp]\nclient_ca = 'c'\n[http]\ncertificate = 'd'\nkey = 'e'";
        let settings: TlsSettings = toml::from_str(text).unwrap();
        let files = |protocol| {
            let files = settings.files(protocol).unwrap().unwrap();
            (files.certificate, files.key, files.client_ca)
        };
        assert_eq!(files(Protocol::Resp), ("a".into(), "b".into(), Some("c".into())));
        assert_eq!(files(Protocol::Http), ("d".into(), "e".into(), None));
        assert_eq!(files(Protocol::Grpc), ("a".into(), "b".into(), None));
    }
}
