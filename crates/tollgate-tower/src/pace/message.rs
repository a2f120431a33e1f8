//! The parts of requests and responses that a paced client needs, for any types.

use http::HeaderMap;

/// A request to send: of `http`, as in hyper, or of reqwest (feature `reqwest`).
pub trait Outgoing {
    /// The method.
    fn method_name(&self) -> &str;

    /// Host and port; empty if the request has neither.
    fn host(&self) -> String;

    /// The path, without a query.
    fn path(&self) -> &str;

    /// The headers.
    fn header_map(&self) -> &HeaderMap;
}

/// A response.
pub trait Answered {
    /// The status.
    fn status_code(&self) -> u16;

    /// The headers.
    fn header_map(&self) -> &HeaderMap;
}

impl<B> Outgoing for http::Request<B> {
    fn method_name(&self) -> &str {
        self.method().as_str()
    }

    fn host(&self) -> String {
        let uri = self.uri();
        let Some(host) = uri.host() else {
            let line = self.headers().get(http::header::HOST);
            return line
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default()
                .to_ascii_lowercase();
        };
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        format!("{}:{}", host.to_ascii_lowercase(), uri.port_u16().unwrap_or(usual))
    }

    fn path(&self) -> &str {
        self.uri().path()
    }

    fn header_map(&self) -> &HeaderMap {
        self.headers()
    }
}

impl<B> Answered for http::Response<B> {
    fn status_code(&self) -> u16 {
        self.status().as_u16()
    }

    fn header_map(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl Outgoing for reqwest::Request {
    fn method_name(&self) -> &str {
        self.method().as_str()
    }

    fn host(&self) -> String {
        let url = self.url();
        let port = url.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", url.host_str().unwrap_or_default())
    }

    fn path(&self) -> &str {
        self.url().path()
    }

    fn header_map(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl Answered for reqwest::Response {
    fn status_code(&self) -> u16 {
        self.status().as_u16()
    }

    fn header_map(&self) -> &HeaderMap {
        self.headers()
    }
}
