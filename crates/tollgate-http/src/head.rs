//! What is looked at of a request, whatever the framework.

use std::fmt;
use std::net::IpAddr;

/// The headers of a request: what a framework must give. Names are lower case.
pub trait Lines {
    /// The value of the first line of that name.
    fn line(&self, name: &str) -> Option<&[u8]>;

    /// The values of all lines of that name, in order.
    fn lines(&self, name: &str) -> Vec<&[u8]>;
}

impl Lines for http::HeaderMap {
    fn line(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(http::HeaderValue::as_bytes)
    }

    fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes).collect()
    }
}

/// The head of a request.
///
/// ```
/// use tollgate_http::Head;
/// let headers = http::HeaderMap::new();
/// let head = Head::new("GET", "/files/7", &headers).peer("192.0.2.1".parse().ok());
/// assert_eq!((head.method, head.path), ("GET", "/files/7"));
/// ```
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// The method, as it came.
    pub method: &'a str,
    /// The path, without a query.
    pub path: &'a str,
    /// The other end of the connection, if it is known.
    pub peer: Option<IpAddr>,
    headers: &'a dyn Lines,
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and addresses belong to people.
        write!(f, "Head({} {})", self.method, self.path)
    }
}

impl<'a> Head<'a> {
    /// A head without a known peer.
    ///
    /// See the example of [`Head`].
    #[must_use]
    pub fn new(method: &'a str, path: &'a str, headers: &'a dyn Lines) -> Head<'a> {
        Head { method, path, peer: None, headers }
    }

    /// The same with a peer.
    ///
    /// See the example of [`Head`].
    #[must_use]
    pub fn peer(self, peer: Option<IpAddr>) -> Head<'a> {
        Head { peer, ..self }
    }

    /// The first line of a header; `name` is lower case.
    ///
    /// ```
    /// # use tollgate_http::Head;
    /// let host = (http::header::HOST, http::HeaderValue::from_static("a"));
    /// let headers = http::HeaderMap::from_iter([host]);
    /// assert_eq!(Head::new("GET", "/", &headers).line("host"), Some(&b"a"[..]));
    /// ```
    #[must_use]
    pub fn line(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.line(name)
    }

    /// All lines of a header.
    #[must_use]
    pub fn lines(&self, name: &str) -> Vec<&'a [u8]> {
        self.headers.lines(name)
    }
}
