//! The head of a request, independent of the framework.

use std::fmt;
use std::net::IpAddr;

/// The headers of a request, as a framework has them. Names are lower case.
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
    /// The method as the client sent it.
    pub method: &'a str,
    /// The path as the client sent it, without a query: the whole path, also in nested routers.
    pub path: &'a str,
    /// The route that the router matched, such as `/users/{id}`, if it is known.
    pub route: Option<&'a str>,
    /// The peer of the connection, if it is known.
    pub peer: Option<IpAddr>,
    /// The path as a nested router sees it.
    pub(crate) nested_path: Option<&'a str>,
    headers: &'a dyn Lines,
    extensions: Option<&'a http::Extensions>,
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and addresses are personal data.
        write!(f, "Head({} {})", self.method, self.path)
    }
}

impl<'a> Head<'a> {
    /// A head without a known peer.
    ///
    /// See the example of [`Head`].
    #[must_use]
    pub fn new(method: &'a str, path: &'a str, headers: &'a dyn Lines) -> Head<'a> {
        Head { method, path, route: None, peer: None, nested_path: None, headers, extensions: None }
    }

    /// The same with a peer.
    ///
    /// See the example of [`Head`].
    #[must_use]
    pub fn peer(self, peer: Option<IpAddr>) -> Head<'a> {
        Head { peer, ..self }
    }

    /// The same with the route that the router matched.
    ///
    /// ```
    /// # use tollgate_http::Head;
    /// let headers = http::HeaderMap::new();
    /// let head = Head::new("GET", "/users/7", &headers).route(Some("/users/{id}"));
    /// assert_eq!(head.route, Some("/users/{id}"));
    /// ```
    #[must_use]
    pub fn route(self, route: Option<&'a str>) -> Head<'a> {
        Head { route, ..self }
    }

    /// The same with the path as a nested router sees it, which is the end of the whole path. Rules
    /// of a [`Chooser`](crate::Chooser) may name either.
    ///
    /// ```
    /// # use tollgate_http::Head;
    /// let headers = http::HeaderMap::new();
    /// let head = Head::new("GET", "/api/users", &headers).nested_path("/users");
    /// assert_eq!(head.path, "/api/users");
    /// ```
    #[must_use]
    pub fn nested_path(self, path: &'a str) -> Head<'a> {
        Head { nested_path: Some(path), ..self }
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

    /// The same with extensions of other middleware.
    ///
    /// See the example of [`extension`](Head::extension).
    #[must_use]
    pub fn extensions(self, extensions: &'a http::Extensions) -> Head<'a> {
        Head { extensions: Some(extensions), ..self }
    }

    /// An extension of other middleware, such as the logged-in user.
    ///
    /// ```
    /// use tollgate_http::{Head, KeyBy};
    ///
    /// #[derive(Clone)]
    /// struct User(u64);
    ///
    /// let (headers, mut extensions) = (http::HeaderMap::new(), http::Extensions::new());
    /// extensions.insert(User(7));
    /// let head = Head::new("GET", "/", &headers).extensions(&extensions);
    /// let by_user = KeyBy::function(|head| {
    ///     head.extension::<User>().map(|user| user.0.to_string().into_bytes())
    /// });
    /// assert!(by_user.find(&head).is_some());
    /// ```
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'a T> {
        self.extensions?.get()
    }
}
