//! The parts of a request that make its key.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{ClientIp, Head};

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The address of the client.
    Ip,
    /// The path, without its query, by the templates of the replay.
    Path,
    /// The method.
    Method,
    /// A field of the log by its name.
    Field(String),
}

impl KeyPart {
    /// Reads a key: parts joined by `+`, such as `ip`, `ip+path` or `field:http_x_api_key`.
    ///
    /// # Errors
    /// When a part is none of `ip`, `path`, `method`, `field:NAME` and `header:NAME`.
    ///
    /// ```
    /// use tollgate_replay::KeyPart;
    /// assert_eq!(KeyPart::parse("ip+path").unwrap(), [KeyPart::Ip, KeyPart::Path]);
    /// ```
    pub fn parse(text: &str) -> Result<Vec<KeyPart>, String> {
        text.split('+')
            .map(|part| match part.trim() {
                "ip" => Ok(KeyPart::Ip),
                "path" => Ok(KeyPart::Path),
                "method" => Ok(KeyPart::Method),
                "user" => Ok(KeyPart::Field("remote_user".to_owned())),
                other => match other.split_once(':') {
                    Some(("field", name)) if !name.is_empty() => {
                        Ok(KeyPart::Field(name.to_owned()))
                    }
                    // As nginx names the headers of a request.
                    Some(("header", name)) if !name.is_empty() => {
                        let name = name.to_ascii_lowercase().replace('-', "_");
                        Ok(KeyPart::Field(format!("http_{name}")))
                    }
                    _ => Err(format!(
                        "key {text:?}: {other:?} is no part of a key; parts are ip, path, method, user, header:NAME and field:NAME, joined by +"
                    )),
                },
            })
            .collect()
    }
}

/// Templates of paths: `/users/{id}` stands for all paths of that form.
#[derive(Clone, Debug, Default)]
pub struct PathTemplates(Vec<String>);

impl PathTemplates {
    /// The first template that fits a path is its name in keys.
    ///
    /// # Errors
    /// When a template does not begin with a slash.
    pub fn new(templates: &[String]) -> Result<PathTemplates, String> {
        match templates.iter().find(|template| !template.starts_with('/')) {
            Some(bad) => Err(format!("path template {bad:?}: begins with /, as /users/{{id}}")),
            None => Ok(PathTemplates(templates.to_vec())),
        }
    }

    /// The template of a path, or the path itself.
    pub(crate) fn name<'a>(&'a self, path: &'a str) -> &'a str {
        let fits = |template: &str| {
            let (mut want, mut have) = (template.split('/'), path.split('/'));
            loop {
                match (want.next(), have.next()) {
                    (None, None) | (Some("**"), _) => return true,
                    (Some(want), Some(have))
                        if want == have
                            || (want.starts_with('{')
                                && want.ends_with('}')
                                && !have.is_empty()) => {}
                    _ => return false,
                }
            }
        };
        self.0.iter().map(String::as_str).find(|template| fits(template)).unwrap_or(path)
    }
}

/// The address of a client as logs write it: `192.0.2.1`, `192.0.2.1:4711`, `[2001:db8::1]:443`.
pub(crate) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    plain.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// The address of the client by the rules of the middleware.
///
/// A log without the address of the peer, such as Envoy's, has it at the end of `X-Forwarded-For`,
/// where the proxy that wrote the log put it.
pub(crate) fn client(
    rules: &ClientIp,
    reads_forwarded: bool,
    peer: Option<&[u8]>,
    forwarded: Option<&[u8]>,
) -> Option<IpAddr> {
    let (peer, forwarded) = match (peer, forwarded) {
        (Some(peer), forwarded) => (address(peer)?, forwarded),
        (None, Some(forwarded)) => match memchr::memrchr(b',', forwarded) {
            Some(comma) => (address(&forwarded[comma + 1..])?, Some(&forwarded[..comma])),
            None => (address(forwarded)?, None),
        },
        (None, None) => return None,
    };
    let mut headers = HeaderMap::new();
    if reads_forwarded && let Some(Ok(value)) = forwarded.map(HeaderValue::from_bytes) {
        headers.insert(HeaderName::from_static("x-forwarded-for"), value);
    }
    rules.find(&Head::new("GET", "/", &headers).peer(Some(peer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_part_by_part() {
        assert_eq!(
            KeyPart::parse("ip+header:X-Api-Key").unwrap(),
            [KeyPart::Ip, KeyPart::Field("http_x_api_key".into())]
        );
        for bad in ["", "ip+", "address", "field:", "ip path"] {
            assert!(KeyPart::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_are_named_by_their_template() {
        let templates = ["/users/{id}", "/users/{id}/posts", "/files/**"].map(str::to_owned);
        let templates = PathTemplates::new(&templates).unwrap();
        for (path, name) in [
            ("/users/42", "/users/{id}"),
            ("/users/42/posts", "/users/{id}/posts"),
            ("/users/", "/users/"),
            ("/users/42/", "/users/42/"),
            ("/files/a/b", "/files/**"),
            ("/other", "/other"),
        ] {
            assert_eq!(templates.name(path), name);
        }
        assert!(PathTemplates::new(&["users".to_owned()]).is_err());
    }

    #[test]
    fn clients_are_found_as_in_the_middleware() {
        let found = |rules: &ClientIp, peer: Option<&str>, forwarded: Option<&str>| {
            client(rules, true, peer.map(str::as_bytes), forwarded.map(str::as_bytes))
                .map(|address| address.to_string())
        };
        let proxies = ClientIp::behind(["10.0.0.0/8"]).unwrap();
        let chain = Some("6.6.6.6, 203.0.113.7, 10.0.0.2");
        assert_eq!(found(&proxies, Some("10.0.0.1:99"), chain).unwrap(), "203.0.113.7");
        assert_eq!(found(&ClientIp::peer(), Some("10.0.0.1"), chain).unwrap(), "10.0.0.1");
        assert_eq!(found(&ClientIp::peer(), None, chain).unwrap(), "10.0.0.2");
        assert_eq!(found(&proxies, None, chain).unwrap(), "203.0.113.7");
        let v6 = Some("[2001:db8::1:2:3:4]:443");
        assert_eq!(found(&ClientIp::peer(), v6, None).unwrap(), "2001:db8::");
        assert_eq!(found(&ClientIp::peer(), Some("unix:"), None), None);
        assert_eq!(found(&ClientIp::peer(), None, None), None);
    }
}
