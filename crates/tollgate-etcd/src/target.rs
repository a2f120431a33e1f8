//! The addresses of the members of a cluster, and the login.

use std::fmt;
use std::time::Duration;

use tollgate::Error;
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

/// Certificates in PEM form.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    fn tls(&self, host: &str) -> ClientTlsConfig {
        // The brackets around an IPv6 address are not part of the name in a certificate.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let tls = ClientTlsConfig::new().domain_name(host);
        let tls = match &self.roots {
            Some(roots) => tls.ca_certificate(Certificate::from_pem(roots)),
            None => tls.with_native_roots(),
        };
        match &self.client {
            Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
            None => tls,
        }
    }
}

impl Target {
    /// `etcd://user:password@host:port,host:port`, and `etcds://` or `?tls` for TLS.
    pub(crate) fn parse(
        url: &str,
        certificates: &Certificates,
        connect_timeout: Duration,
    ) -> Result<Target, Error> {
        let wrong = |what: &str| {
            Error::request(format!(
                "etcd address {:?}: {what}; expected etcd://user:password@host:port,host:port, etcds:// or ?tls",
                without_password(url)
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let tls = match (scheme, query) {
            ("etcd", "") => false,
            ("etcds", "" | "tls") | ("etcd", "tls") => true,
            ("etcd" | "etcds", _) => return Err(wrong("unknown option")),
            _ => return Err(wrong("unknown scheme")),
        };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let login = login.map(|login| {
            let (name, password) = login.split_once(':')?;
            Some(AuthenticateRequest { name: decoded(name)?, password: decoded(password)? })
        });
        let login =
            login.map(|login| login.ok_or_else(|| wrong("no user:password"))).transpose()?;
        let addresses = rest.strip_suffix('/').unwrap_or(rest);
        let member = |address| {
            member(address, tls.then_some(certificates), connect_timeout)
                .map_err(|what| wrong(&what))
        };
        let members = addresses.split(',').map(member).collect::<Result<_, _>>()?;
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
    let host = endpoint.uri().host().unwrap_or_default();
    let tls = certificates.tls(host);
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

/// Decodes `%20` and similar escapes; `None` if the result is not text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The URL for messages.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.into(),
    }
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
