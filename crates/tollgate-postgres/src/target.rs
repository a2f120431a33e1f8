//! Addresses and TLS.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate::Error;
use tollgate_remote::Certificates;

/// The address of the server, and TLS.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    name: String,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Target {
    pub(crate) fn parse(
        url: &str,
        certificates: &Certificates,
        timeout: Duration,
    ) -> Result<Target, Error> {
        // `require` verifies too: TLS always does here.
        let plain = url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            Error::request(format!("address of PostgreSQL: {}", crate::failure::message(&error)))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::request(
                "address of PostgreSQL: no host, as in postgres://user:password@host:5432/database",
            ));
        }
        if !url.contains("sslmode=") {
            let local = config.get_hosts().iter().all(is_local);
            config.ssl_mode(if local { SslMode::Disable } else { SslMode::Require });
        }
        if config.get_application_name().is_none() {
            config.application_name("tollgate");
        }
        config.connect_timeout(timeout);
        let name = config
            .get_hosts()
            .iter()
            .zip(config.get_ports().iter().chain(std::iter::repeat(&5432)));
        let name = name.map(|(host, port)| match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let name = name.collect::<Vec<_>>().join(",");
        Ok(Target { config, tls: connector(certificates)?, name })
    }

    /// The name for messages, without user and password.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Whether the host is this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn connector(certificates: &Certificates) -> Result<MakeRustlsConnect, Error> {
    let wrong =
        |what: &str, error: &dyn std::fmt::Display| Error::request(format!("{what}: {error}"));
    let Certificates { roots, client } = certificates;
    let mut store = RootCertStore::empty();
    match roots {
        Some(roots) => {
            for certificate in CertificateDer::pem_slice_iter(roots) {
                let certificate =
                    certificate.map_err(|error| wrong("root certificates", &error))?;
                store.add(certificate).map_err(|error| wrong("root certificates", &error))?;
            }
        }
        // Without roots, no certificate of a server is accepted.
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("TLS", &error))?
        .with_root_certificates(store);
    let config = match client {
        Some((certificate, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
            let chain = chain.map_err(|error| wrong("client certificate", &error))?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| wrong("key of the client certificate", &error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| wrong("client certificate", &error))?
        }
        None => config.with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}
