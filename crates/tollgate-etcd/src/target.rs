//! The addresses of the members of a cluster, and the login.

use std::fmt;
use std::time::Duration;

use tollgate::Error;
use tollgate_remote::{Certificates, Login, StoreUrl, invalid_url};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::messages::AuthenticateRequest;

/// The default port of etcd.
const PORT: u16 = 2379;

/// Keeps firewalls from dropping a connection that is rarely used.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// An address: members in the order in which they are tried, and one login for all of them.
#[derive(Clone)]
pub(crate) struct Target {
    members: Vec<Endpoint>,
    login: Option<AuthenticateRequest>,
}

/// Writes only the addresses, without passwords.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.iter().map(Endpoint::uri)).finish()
    }
}

/// TLS with the server of this name.
fn tls(certificates: &Certificates, host: &str) -> ClientTlsConfig {
    // The brackets around an IPv6 address are not part of the name in a certificate.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tls = ClientTlsConfig::new().domain_name(host);
    let tls = match &certificates.roots {
        Some(roots) => tls.ca_certificate(Certificate::from_pem(roots)),
        None => tls.with_native_roots(),
    };
    match &certificates.client {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    }
}

impl Target {
    /// `etcd://user:password@host:port,host:port`, and `etcds://` or `?tls` for TLS.
    pub(crate) fn parse(
        url: &str,
        certificates: &Certificates,
        connect_timeout: Duration,
    ) -> Result<Target, Error> {
        let wrong = |problem: &str| {
            let expected = "etcd://user:password@host:port,host:port, etcds:// or ?tls";
            invalid_url("etcd", url, problem, expected)
        };
        let StoreUrl { scheme, login, addresses, rest, .. } =
            StoreUrl::parse(url).map_err(wrong)?;
        let tls = match (scheme, rest.strip_prefix('/').unwrap_or(rest)) {
            ("etcd", "") => false,
            ("etcds", "" | "?" | "?tls") | ("etcd", "?tls") => true,
            ("etcd" | "etcds", _) => return Err(wrong("unknown option")),
            _ => return Err(wrong("unknown scheme")),
        };
        let login =
            login.map(|Login { user, password }| AuthenticateRequest { name: user, password });
        let member = |address| {
            member(address, tls.then_some(certificates), connect_timeout)
                .map_err(|problem| wrong(&problem))
        };
        let members = addresses.into_iter().map(member).collect::<Result<_, _>>()?;
        Ok(Target { members, login })
    }

    /// How many members there are, at least one.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The members from that index on, once around.
    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = (usize, &Endpoint)> {
        let indexes = (index..index + self.len()).map(|index| index % self.len());
        indexes.map(|index| (index, &self.members[index]))
    }

    pub(crate) fn login(&self) -> Option<&AuthenticateRequest> {
        self.login.as_ref()
    }
}

fn member(
    address: &str,
    tls: Option<&Certificates>,
    connect_timeout: Duration,
) -> Result<Endpoint, String> {
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let uri = match (has_port, address) {
        (_, "") => return Err("no host".into()),
        (true, _) => format!("{scheme}://{address}"),
        (false, _) => format!("{scheme}://{address}:{PORT}"),
    };
    let wrong = |error| format!("{address:?}: {}", chain(&error));
    let endpoint = Endpoint::from_shared(uri).map_err(wrong)?;
    let endpoint = endpoint.connect_timeout(connect_timeout).tcp_nodelay(true);
    let endpoint = endpoint.tcp_keepalive(Some(KEEP_ALIVE));
    let Some(certificates) = tls else { return Ok(endpoint) };
    let tls = self::tls(certificates, endpoint.uri().host().unwrap_or_default());
    endpoint.tls_config(tls).map_err(wrong)
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, Error> {
        Target::parse(url, &Certificates::default(), Duration::from_secs(1))
    }

    fn members(url: &str) -> String {
        format!("{:?}", parse(url).unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn members_are_tried_in_the_order_of_the_address_and_have_a_port() {
        assert_eq!(members("etcd://a"), "[http://a:2379/]");
        assert_eq!(members("etcd://a:1,b/"), "[http://a:1/, http://b:2379/]");
        assert_eq!(members("etcd://[::1],[::2]:7"), "[http://[::1]:2379/, http://[::2]:7/]");
        assert_eq!(members("etcds://a,b"), "[https://a:2379/, https://b:2379/]");
        assert_eq!(members("etcd://a?tls"), "[https://a:2379/]");
        let target = parse("etcd://a,b,c").unwrap();
        let order: Vec<_> = target.from(2).map(|(index, _)| index).collect();
        assert_eq!(order, [2, 0, 1]);
    }

    #[test]
    fn logins_are_decoded() {
        let target = parse("etcd://al%69ce:open%20s%40same:x@a").unwrap();
        let login = target.login().unwrap();
        assert_eq!((&login.name[..], &login.password[..]), ("alice", "open s@same:x"));
        assert!(parse("etcd://a").unwrap().login().is_none());
    }

    #[test]
    fn an_invalid_address_is_reported_without_its_password() {
        for url in [
            "",
            "a:2379",
            "http://a",
            "etcd://",
            "etcd://a,,b",
            "etcd://a?what",
            "etcd://a b",
            "etcd://alice@a",
            "etcd://alice:%zz@a",
            "etcd://alice:secret@",
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains("expected etcd://"), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(!members("etcd://alice:secret@a").contains("secret"));
    }
}
