//! The key of a request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate::key::Form;
use tollgate::{Key, KeyRef, Parts};

use crate::client_ip::ClientIp;
use crate::forwarded::trim;
use crate::head::Head;
use crate::paths::clean_path;

/// How the key of a request is found.
///
/// ```
/// use tollgate_http::{ClientIp, Head, KeyBy};
///
/// let headers = http::HeaderMap::from_iter([(
///     http::HeaderName::from_static("x-tenant"),
///     http::HeaderValue::from_static("acme"),
/// )]);
/// let head = Head::new("GET", "/files", &headers).peer("192.0.2.1".parse().ok());
///
/// assert!(KeyBy::client_ip(ClientIp::peer()).find(&head).is_some());
/// assert!(KeyBy::header("x-tenant").and(KeyBy::path()).find(&head).is_some());
/// assert!(KeyBy::header("x-user").find(&head).is_none());
/// assert!(KeyBy::header("x-user").or(KeyBy::header("x-tenant")).find(&head).is_some());
/// ```
#[derive(Clone)]
pub struct KeyBy(Source);

type Function = dyn Fn(&Head<'_>) -> Option<Vec<u8>> + Send + Sync;

#[derive(Clone)]
enum Source {
    ClientIp(ClientIp),
    Header(Box<str>),
    Secret(Box<str>),
    Bearer,
    Path,
    Route,
    Method,
    Everyone,
    Function(Arc<Function>),
    All(Box<[KeyBy]>),
    First(Box<[KeyBy]>),
}

impl fmt::Debug for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::ClientIp(client) => write!(f, "{client:?}"),
            Source::Header(name) => write!(f, "header {name}"),
            Source::Secret(name) => write!(f, "secret header {name}"),
            Source::Bearer => f.write_str("bearer token"),
            Source::Path => f.write_str("path"),
            Source::Route => f.write_str("route"),
            Source::Method => f.write_str("method"),
            Source::Everyone => f.write_str("everyone"),
            Source::Function(_) => f.write_str("function"),
            Source::All(parts) => write!(f, "all of {parts:?}"),
            Source::First(parts) => write!(f, "first of {parts:?}"),
        }
    }
}

impl KeyBy {
    /// The address of the client.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    #[doc(alias = "ip")]
    #[doc(alias = "per ip")]
    pub fn client_ip(client: ClientIp) -> KeyBy {
        KeyBy(Source::ClientIp(client))
    }

    /// The value of a header. An empty one counts as missing.
    ///
    /// # Security
    /// A client writes what it likes into its headers, and each value has a bucket of its own:
    /// alone, or followed by [`or`](KeyBy::or), this is a way around the limit. Use it for a header
    /// that your proxy overwrites, or together [with](KeyBy::and) the address. Look up an API key
    /// by [`Gate::callers`](crate::Gate::callers), which limits unknown ones by address.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    pub fn header(name: &str) -> KeyBy {
        KeyBy(Source::Header(name.to_ascii_lowercase().into()))
    }

    /// The value of a secret header, such as an API key: the store gets its hash.
    ///
    /// # Security
    /// The key is not checked. A client that invents keys gets a bucket for each of them, so use
    /// this only behind a layer that has rejected unknown keys, never as
    /// `api_key(..).or(client_ip(..))`. [`Gate::callers`](crate::Gate::callers) looks keys up, and
    /// limits unknown ones by address.
    ///
    /// ```
    /// let key = tollgate_http::KeyBy::api_key("x-api-key");
    /// ```
    #[must_use]
    pub fn api_key(header: &str) -> KeyBy {
        KeyBy(Source::Secret(header.to_ascii_lowercase().into()))
    }

    /// The token of `Authorization: Bearer`, hashed.
    ///
    /// # Security
    /// As for [`api_key`](KeyBy::api_key): the token is not checked.
    ///
    /// ```
    /// let key = tollgate_http::KeyBy::bearer();
    /// ```
    #[must_use]
    pub fn bearer() -> KeyBy {
        KeyBy(Source::Bearer)
    }

    /// The path, without a query. All spellings of a path that servers may treat as the same are
    /// one key: `/login`, `/login/`, `//login` and `/%6cogin`.
    ///
    /// # Security
    /// A client invents paths, `/users/1` and `/users/2`, and has a bucket for each of them. Use
    /// [`route`](KeyBy::route) where routes have parameters.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    pub fn path() -> KeyBy {
        KeyBy(Source::Path)
    }

    /// The route that the router matched, such as `/users/{id}`. All requests that match no route
    /// have one key, and so has every request if the limit is outside of the router.
    ///
    /// ```
    /// use tollgate_http::{Head, KeyBy};
    /// let headers = http::HeaderMap::new();
    /// let of = |path, route| KeyBy::route().find(&Head::new("GET", path, &headers).route(route));
    /// assert_eq!(of("/users/1", Some("/users/{id}")), of("/users/2", Some("/users/{id}")));
    /// assert_eq!(of("/nowhere", None), of("/elsewhere", None));
    /// ```
    #[must_use]
    pub fn route() -> KeyBy {
        KeyBy(Source::Route)
    }

    /// The method.
    ///
    /// ```
    /// let key = tollgate_http::KeyBy::method().and(tollgate_http::KeyBy::path());
    /// ```
    #[must_use]
    pub fn method() -> KeyBy {
        KeyBy(Source::Method)
    }

    /// One key for all requests.
    ///
    /// ```
    /// let key = tollgate_http::KeyBy::everyone();
    /// ```
    #[must_use]
    pub fn everyone() -> KeyBy {
        KeyBy(Source::Everyone)
    }

    /// The key that your function returns. `None` or an empty key counts as missing.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tollgate_http::KeyBy;
    ///
    /// // API keys that are known stand for accounts. Unknown ones are limited by address.
    /// let accounts = HashMap::from([(b"s3cret".to_vec(), b"acme".to_vec())]);
    /// let by_account = KeyBy::function(move |head| accounts.get(head.line("x-api-key")?).cloned());
    /// let key = by_account.or(KeyBy::default());
    /// ```
    #[must_use]
    pub fn function(find: impl Fn(&Head<'_>) -> Option<Vec<u8>> + Send + Sync + 'static) -> KeyBy {
        KeyBy(Source::Function(Arc::new(find)))
    }

    /// This key and another one together; missing if one of them is.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    pub fn and(self, other: KeyBy) -> KeyBy {
        let mut parts = match self.0 {
            Source::All(parts) => parts.into_vec(),
            one => vec![KeyBy(one)],
        };
        parts.push(other);
        KeyBy(Source::All(parts.into()))
    }

    /// This key, or another one where it is missing. Keys of the two never collide.
    ///
    /// # Security
    /// The first key must be one that a client cannot invent: one that your function has verified,
    /// never [`api_key`](KeyBy::api_key), [`bearer`](KeyBy::bearer) or [`header`](KeyBy::header) as
    /// the client wrote it.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    pub fn or(self, other: KeyBy) -> KeyBy {
        let mut parts = match self.0 {
            Source::First(parts) => parts.into_vec(),
            one => vec![KeyBy(one)],
        };
        parts.push(other);
        KeyBy(Source::First(parts.into()))
    }

    /// The key of a request, if it has one.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    #[inline]
    pub fn find(&self, head: &Head<'_>) -> Option<RequestKey> {
        match &self.0 {
            Source::ClientIp(client) => client.find(head).map(RequestKey::Address),
            _ => self.find_other(head),
        }
    }

    /// Whether only the address of the client counts.
    pub(crate) fn is_address(&self) -> bool {
        matches!(self.0, Source::ClientIp(_))
    }

    /// All sources except the default one. Kept apart, because most requests use the default.
    fn find_other(&self, head: &Head<'_>) -> Option<RequestKey> {
        let text =
            |bytes: &[u8]| Some(RequestKey::Bytes(bytes.into())).filter(|_| !bytes.is_empty());
        match &self.0 {
            Source::ClientIp(client) => client.find(head).map(RequestKey::Address),
            Source::Header(name) => text(trim(head.line(name)?)),
            Source::Secret(name) => text(trim(head.line(name)?)).map(RequestKey::hashed),
            Source::Bearer => text(bearer(head.line("authorization")?)?).map(RequestKey::hashed),
            Source::Path => text(&clean_path(head.path)),
            Source::Route => {
                Some(RequestKey::Bytes(head.route.unwrap_or_default().as_bytes().into()))
            }
            Source::Method => text(head.method.as_bytes()),
            Source::Everyone => Some(RequestKey::everyone()),
            Source::Function(find) => text(&find(head)?),
            Source::All(parts) => {
                let parts: Option<Vec<_>> = parts.iter().map(|part| part.find(head)).collect();
                parts.map(RequestKey::Parts)
            }
            Source::First(parts) => {
                let mut found = parts.iter().enumerate().filter_map(|(index, part)| {
                    part.find(head).map(|key| RequestKey::chosen(index, key))
                });
                found.next()
            }
        }
    }
}

impl Default for KeyBy {
    fn default() -> Self {
        KeyBy::client_ip(ClientIp::peer())
    }
}

fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| trim(token))
}

/// The key of a request.
///
/// ```
/// use tollgate::{Key, Memory};
/// use tollgate_http::{Head, KeyBy};
///
/// let limiter = Memory::new().limiter("1/minute")?;
/// let headers = http::HeaderMap::new();
/// let head = Head::new("GET", "/", &headers).peer("192.0.2.1".parse().ok());
/// let Some(key) = KeyBy::default().find(&head) else { panic!() };
/// assert!(limiter.hit(&key).allowed());
/// assert!(!limiter.hit("192.0.2.1").allowed(), "an address is its text");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum RequestKey {
    /// Text or bytes.
    Bytes(Box<[u8]>),
    /// An address.
    Address(IpAddr),
    /// Several keys together.
    Parts(Vec<RequestKey>),
}

/// Prints only the kind of a key: keys are personal data.
impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestKey::Bytes(_) => f.write_str("Bytes"),
            RequestKey::Address(_) => f.write_str("Address"),
            RequestKey::Parts(parts) => f.debug_tuple("Parts").field(parts).finish(),
        }
    }
}

impl RequestKey {
    /// The key that all requests without one share, and that [`KeyBy::everyone`] gives to all.
    pub(crate) fn everyone() -> RequestKey {
        RequestKey::Bytes(Box::default())
    }

    /// The key from this place of several alternatives. Empty parts before it encode the place, and
    /// no other key has them. So no header of a client makes it equal to a key of several parts.
    fn chosen(place: usize, key: RequestKey) -> RequestKey {
        let mut parts = vec![RequestKey::Parts(Vec::new()); place + 1];
        parts.push(key);
        RequestKey::Parts(parts)
    }

    /// The key of a [caller](crate::Caller) that was looked up and found, to ask or reset its limit
    /// by hand. It differs from every key that is found in a request.
    ///
    /// ```
    /// use tollgate::Memory;
    /// use tollgate_http::RequestKey;
    /// let limiter = Memory::new().limiter("100/minute")?;
    /// assert_eq!(limiter.usage(RequestKey::caller("acme")), 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn caller(id: impl AsRef<[u8]>) -> RequestKey {
        let marker = RequestKey::Parts(vec![RequestKey::Parts(Vec::new())]);
        RequestKey::Parts(vec![marker, RequestKey::Bytes(id.as_ref().into())])
    }

    /// 128 bits of the SHA-256 in hexadecimal, the same in every process.
    fn hashed(self) -> RequestKey {
        let digest = self.with_key(|key| Sha256::digest(key.bytes()));
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        RequestKey::Bytes(hex.into_bytes().into())
    }
}

impl Key for RequestKey {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            RequestKey::Bytes(bytes) => f(KeyRef::plain(bytes)),
            RequestKey::Address(address) => address.with_key(f),
            // Through a box, because a recursive generic type would have no end.
            RequestKey::Parts(parts) => with_parts(parts, f),
        }
    }
}

fn with_parts<R>(parts: &[RequestKey], f: impl FnOnce(KeyRef<'_>) -> R) -> R {
    let framed: Vec<Framed> = parts.iter().map(Framed::new).collect();
    Parts(&framed).with_key(f)
}

/// A part of a key, copied as stores see it.
struct Framed {
    form: Form,
    bytes: Vec<u8>,
}

impl Framed {
    fn new(key: &RequestKey) -> Framed {
        key.with_key(|key| Framed { form: key.form(), bytes: key.bytes().to_vec() })
    }
}

impl Key for Framed {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::from_parts(self.form, &self.bytes))
    }
}
