//! Certificates of ports.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::net::TlsFiles;
use crate::observe::Protocol;

/// Certificates, for all ports and for single ones. Files in PEM form.
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
    /// The certificate and those between it and an authority.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Authorities of clients: with these a client must show a certificate.
    pub client_ca: Option<PathBuf>,
    /// What is different for HTTP.
    pub http: PortTlsSettings,
    /// For gRPC.
    pub grpc: PortTlsSettings,
    /// For RESP.
    pub resp: PortTlsSettings,
    /// For the admin port.
    pub admin: PortTlsSettings,
}

/// What is different for one port.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct PortTlsSettings {
    /// In the clear, whatever holds for the others.
    pub off: bool,
    /// Another certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Other authorities of clients.
    pub client_ca: Option<PathBuf>,
}

impl TlsSettings {
    /// The files of a port; `None` if it is in the clear.
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

    /// The certificate of a port, whether or not its key is here too: that may be a flag or in the
    /// environment.
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

    /// A certificate and its key come from the same place.
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
    fn half_of_a_certificate_is_refused() {
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
    fn a_port_can_have_its_own() {
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
