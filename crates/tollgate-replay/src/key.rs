//! The parts of a request that make its key.

use std::net::IpAddr;

use tollgate_http::{ClientIp, PathPattern, address};

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The address of the client.
    Ip,
    /// The path, without its query, by the templates of the replay.
    Path,
    /// The method.
    Method,
    /// The authenticated user.
    User,
    /// A header of the request, by its name.
    Header(String),
    /// A field of the log, by its name.
    Field(String),
}

impl KeyPart {
    /// Reads a key: parts joined by `+`, such as `ip`, `ip+path` or `header:X-Api-Key`.
    ///
    /// # Errors
    /// When a part is none of `ip`, `path`, `method`, `user`, `header:NAME` and `field:NAME`.
    ///
    /// ```
    /// use tollgate_replay::KeyPart;
    /// assert_eq!(KeyPart::parse("ip+path").unwrap(), [KeyPart::Ip, KeyPart::Path]);
    /// ```
    pub fn parse(text: &str) -> Result<Vec<KeyPart>, String> {
        let part = |part: &str| match part.trim() {
            "ip" => Ok(KeyPart::Ip),
            "path" => Ok(KeyPart::Path),
            "method" => Ok(KeyPart::Method),
            "user" => Ok(KeyPart::User),
            other => match other.split_once(':') {
                Some(("field", name)) if !name.is_empty() => Ok(KeyPart::Field(name.to_owned())),
                Some(("header", name)) if !name.is_empty() => Ok(KeyPart::Header(name.to_owned())),
                _ => Err(format!(
                    "key {text:?}: {other:?} is no part of a key; parts are ip, path, method, user, header:NAME and field:NAME, joined by +"
                )),
            },
        };
        text.split('+').map(part).collect()
    }

    /// The names by which logs call the field of this part; empty for parts that are no field.
    pub(crate) fn field_names(&self) -> Vec<String> {
        match self {
            KeyPart::Ip | KeyPart::Path | KeyPart::Method => Vec::new(),
            // nginx and Apache, Traefik, Caddy, CloudFront.
            KeyPart::User => ["remote_user", "ClientUsername", "user_id", "cs-username"]
                .map(str::to_owned)
                .into(),
            KeyPart::Header(name) => {
                let lower = name.to_ascii_lowercase();
                let canonical = canonical(&lower);
                vec![
                    // nginx.
                    format!("http_{}", lower.replace('-', "_")),
                    // Caddy, Traefik, W3C.
                    format!("request.headers.{canonical}"),
                    format!("request_{canonical}"),
                    format!("cs({canonical})"),
                    lower.replace('-', "_"),
                    lower,
                    canonical,
                ]
            }
            KeyPart::Field(name) => vec![name.clone()],
        }
    }
}

/// A header as Go writes it: `X-Api-Key`.
fn canonical(lower: &str) -> String {
    let word = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    lower.split('-').map(word).collect::<Vec<_>>().join("-")
}

/// Templates of paths, in the syntax of the middleware's rules: `/users/{id}` stands for all paths
/// of that form.
#[derive(Clone, Debug, Default)]
pub struct PathTemplates(Vec<PathPattern>);

impl PathTemplates {
    /// The first template that fits a path is its name in keys.
    ///
    /// # Errors
    /// When a template does not begin with a slash, or no path can fit it.
    pub fn new(templates: &[String]) -> Result<PathTemplates, String> {
        let pattern = |template: &String| {
            PathPattern::new(template).map_err(|error| {
                format!("path template: {error}; write it as /users/{{id}} or /files/{{*rest}}")
            })
        };
        Ok(PathTemplates(templates.iter().map(pattern).collect::<Result<_, _>>()?))
    }

    /// Appends the template of a path to a key. A path that none fits is its own name, in the
    /// spelling that the middleware uses.
    pub(crate) fn write(&self, path: &str, key: &mut String) {
        match self.0.iter().find(|pattern| pattern.fits(path)) {
            Some(pattern) => key.push_str(pattern.text()),
            None => key.push_str(&String::from_utf8_lossy(&tollgate_http::clean_path(path))),
        }
    }
}

/// The address of the client by the rules of the middleware.
///
/// A log without the address of the peer, such as Envoy's, has it at the end of `X-Forwarded-For`,
/// where the proxy that wrote the log put it.
pub(crate) fn client(
    rules: &ClientIp,
    peer: Option<&[u8]>,
    forwarded: Option<&[u8]>,
) -> Option<IpAddr> {
    let (peer, forwarded) = match (peer, forwarded) {
        (Some(peer), forwarded) => (peer, forwarded),
        (None, Some(forwarded)) => match memchr::memrchr(b',', forwarded) {
            Some(comma) => (&forwarded[comma + 1..], Some(&forwarded[..comma])),
            None => (forwarded, None),
        },
        (None, None) => return None,
    };
    // Proxies that write no address, such as for a unix socket, have no peer.
    rules.find_by(address(peer.trim_ascii()), || forwarded.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_part_by_part() {
        assert_eq!(
            KeyPart::parse("ip+header:X-Api-Key").unwrap(),
            [KeyPart::Ip, KeyPart::Header("X-Api-Key".into())]
        );
        let names = KeyPart::Header("x-api-KEY".into()).field_names();
        for name in ["http_x_api_key", "request.headers.X-Api-Key", "request_X-Api-Key"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        for bad in ["", "ip+", "address", "field:", "ip path"] {
            assert!(KeyPart::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_are_named_by_their_template() {
        let templates = ["/users/{id}", "/users/{id}/posts", "/files/{*rest}"].map(str::to_owned);
        let templates = PathTemplates::new(&templates).unwrap();
        for (path, name) in [
            ("/users/42", "/users/{id}"),
            ("//users/42/", "/users/{id}"),
            ("/users/42/posts", "/users/{id}/posts"),
            ("/users/", "/users"),
            ("/files/a/b", "/files/{*rest}"),
            ("/%6fther", "/other"),
        ] {
            let mut key = String::new();
            templates.write(path, &mut key);
            assert_eq!(key, name);
        }
        for bad in ["users", "/users/:id", "/*/x"] {
            assert!(PathTemplates::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_are_found_as_in_the_middleware() {
        let found = |rules: &ClientIp, peer: Option<&str>, forwarded: Option<&str>| {
            client(rules, peer.map(str::as_bytes), forwarded.map(str::as_bytes))
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
        let behind_one = ClientIp::behind_hops(1);
        assert_eq!(found(&behind_one, Some("unix:"), chain).unwrap(), "10.0.0.2");
        assert_eq!(found(&ClientIp::peer(), None, None), None);
    }
}
