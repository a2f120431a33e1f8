//! Refuses requests that a web page makes a browser send.
//!
//! A port without tokens trusts every program that can reach it. A browser is such a program, and
//! it sends requests for any web page: to another origin (cross-site requests), or to a name that
//! the page's owner resolves to this machine (DNS rebinding). Both are refused here. A port with
//! tokens is safe from both: a page has no token.

use http::{HeaderMap, HeaderValue, Request, StatusCode, header};

use super::problem::Problem;
use crate::net::Port;

/// Headers that a proxy adds, and that a page of another origin cannot make a browser send. A check
/// with one of them comes from a proxy that passes on all headers of its client.
const OF_PROXIES: [&str; 7] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-uri",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
];

/// Whether names are compared too: on a port of this machine alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Browsers {
    local: bool,
}

impl Browsers {
    /// Creates the check for the requests of a port.
    pub(crate) fn new(port: &Port) -> Browsers {
        let local = |address: std::net::SocketAddr| address.ip().to_canonical().is_loopback();
        Browsers { local: port.address().is_ok_and(local) }
    }

    /// The problem of a request that is refused.
    pub(crate) fn refuse<B>(self, request: &Request<B>) -> Option<Problem> {
        let headers = request.headers();
        let host = host(request);
        if self.local && !is_of_this_machine(host) {
            return Some(refused(&format!(
                "host {host:?}: this port is for programs on this machine; expected localhost, an address or a name without a dot"
            )));
        }
        if is_checked_by_proxy(request.uri().path(), headers) {
            return None;
        }
        Browsers::refuse_foreign(request)
    }

    /// The problem of a request that a web page of another origin makes a browser send.
    pub(crate) fn refuse_foreign<B>(request: &Request<B>) -> Option<Problem> {
        is_foreign(request.headers(), host(request)).then(|| {
            refused("the request comes from a web page of another origin (Origin, Sec-Fetch-Site)")
        })
    }
}

fn refused(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, format!("{detail}; or ask for a token on this port"))
}

fn host<B>(request: &Request<B>) -> &str {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let header = || request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    authority.or_else(header).unwrap_or_default()
}

/// Whether a name can only mean this machine. The owner of a name with a dot can resolve it to any
/// address; nobody owns a name without one.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    !name.contains('.')
        || name.ends_with(".localhost")
        || address.parse::<std::net::IpAddr>().is_ok()
}

fn is_foreign(headers: &HeaderMap, host: &str) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return !matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        origin.split_once("://").is_some_and(|(_, authority)| authority == host)
    };
    headers.get(header::ORIGIN).is_some_and(|origin| !is_own(origin))
}

fn is_checked_by_proxy(path: &str, headers: &HeaderMap) -> bool {
    path == "/v1/check" && OF_PROXIES.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(local: bool, path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Browsers { local }.refuse(&request.body(()).unwrap()).is_some()
    }

    #[test]
    fn names_that_somebody_may_own_are_refused_on_a_local_port() {
        for (host, refused) in [
            ("localhost", false),
            ("localhost:8080", false),
            ("app.localhost:8080", false),
            ("tollgate", false),
            ("127.0.0.1:8080", false),
            ("[::1]:8080", false),
            ("::1", false),
            ("", false),
            ("evil.example", true),
            ("evil.example:8080", true),
            ("127.0.0.1.evil.example", true),
            ("localhost.evil.example:80", true),
        ] {
            assert_eq!(refuses(true, "/v1/hit", &[("host", host)]), refused, "{host}");
            assert!(!refuses(false, "/v1/hit", &[("host", host)]), "{host}");
        }
        assert!(refuses(true, "http://evil.example/v1/hit", &[("host", "localhost")]));
    }

    #[test]
    fn requests_of_other_origins_are_refused() {
        let host = ("host", "localhost:8080");
        for (name, value, refused) in [
            ("origin", "http://localhost:8080", false),
            ("origin", "http://localhost:9090", true),
            ("origin", "https://evil.example", true),
            ("origin", "null", true),
            ("sec-fetch-site", "none", false),
            ("sec-fetch-site", "same-origin", false),
            ("sec-fetch-site", "same-site", true),
            ("sec-fetch-site", "cross-site", true),
        ] {
            for local in [true, false] {
                let both = [host, (name, value)];
                assert_eq!(refuses(local, "/v1/hit", &both), refused, "{name}: {value}");
                let proxied = [host, (name, value), ("x-forwarded-for", "192.0.2.1")];
                assert_eq!(refuses(local, "/v1/hit", &proxied), refused, "{name}: {value}");
                assert!(!refuses(local, "/v1/check", &proxied), "{name}: {value}");
            }
        }
    }
}
