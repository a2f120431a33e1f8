//! What is limited: the key of a request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate::{Key, KeyRef, Parts};

use crate::client_ip::ClientIp;
use crate::forwarded::trim;
use crate::head::Head;

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
    pub fn client_ip(client: ClientIp) -> KeyBy {
        KeyBy(Source::ClientIp(client))
    }

    /// The value of a header. An empty one counts as missing.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    pub fn header(name: &str) -> KeyBy {
        KeyBy(Source::Header(name.to_ascii_lowercase().into()))
    }

    /// The value of a header that is nobody's business, such as an API key: its hash stands in the store.
    ///
    /// ```
    /// let key = tollgate_http::KeyBy::api_key("x-api-key");
    /// ```
    #[must_use]
    pub fn api_key(header: &str) -> KeyBy {
        KeyBy(Source::Secret(header.to_ascii_lowercase().into()))
    }

    /// The token of `Authorization: Bearer`, hashed. It is not checked: a client that makes tokens up gets a key for each, so limit addresses as well
    /// or stand behind whoever checks it.
    ///
    /// ```
    /// let key = tollgate_http::KeyBy::bearer();
    /// ```
    #[must_use]
    pub fn bearer() -> KeyBy {
        KeyBy(Source::Bearer)
    }

    /// The path, without a query.
    ///
    /// See the example of [`KeyBy`].
    #[must_use]
    pub fn path() -> KeyBy {
        KeyBy(Source::Path)
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

    /// What a function of yours says. Nothing at all, even as an empty key, counts as missing.
    ///
    /// ```
    /// use tollgate_http::KeyBy;
    /// let tenant = KeyBy::function(|head| {
    ///     head.path.split('/').nth(1).map(|tenant| tenant.as_bytes().to_vec())
    /// });
    /// ```
    #[must_use]
    pub fn function(find: impl Fn(&Head<'_>) -> Option<Vec<u8>> + Send + Sync + 'static) -> KeyBy {
        KeyBy(Source::Function(Arc::new(find)))
    }

    /// This and another one together; missing if one is.
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

    /// This, or another one where it is missing. Keys of the two never meet.
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

    /// The key of all requests of this peer, where nothing but that counts.
    pub(crate) fn of_peer(&self, peer: IpAddr) -> Option<RequestKey> {
        match &self.0 {
            Source::ClientIp(client) => client.of_peer(peer).map(RequestKey::Address),
            _ => None,
        }
    }

    /// All but the usual one, apart from it: that is the way of most requests.
    fn find_other(&self, head: &Head<'_>) -> Option<RequestKey> {
        let text =
            |bytes: &[u8]| Some(RequestKey::Bytes(bytes.into())).filter(|_| !bytes.is_empty());
        match &self.0 {
            Source::ClientIp(client) => client.find(head).map(RequestKey::Address),
            Source::Header(name) => text(trim(head.line(name)?)),
            Source::Secret(name) => text(trim(head.line(name)?)).map(RequestKey::hashed),
            Source::Bearer => text(bearer(head.line("authorization")?)?).map(RequestKey::hashed),
            Source::Path => text(head.path.as_bytes()),
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

/// Keys belong to people: only their kind is told.
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

    /// The key that was found at this place of several. Empty parts before it tell the place: no other key has one, so nothing that a client sends makes
    /// it the same as a key of several parts.
    fn chosen(place: usize, key: RequestKey) -> RequestKey {
        let mut parts = vec![RequestKey::Parts(Vec::new()); place + 1];
        parts.push(key);
        RequestKey::Parts(parts)
    }

    /// 128 bits of its SHA-256 in hexadecimal, the same in every process.
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
            // Through a box, because a key of keys would else be a type without end.
            RequestKey::Parts(parts) => with_parts(parts, f),
        }
    }
}

fn with_parts<R>(parts: &[RequestKey], f: impl FnOnce(KeyRef<'_>) -> R) -> R {
    let framed: Vec<Framed> = parts.iter().map(Framed::of).collect();
    Parts(&framed).with_key(f)
}

/// A key whose parts are framed already.
#[derive(Clone)]
pub(crate) struct Framed {
    form: tollgate::Form,
    bytes: Vec<u8>,
}

/// It belongs to people.
impl fmt::Debug for Framed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Framed")
    }
}

impl Framed {
    pub(crate) fn of(key: &RequestKey) -> Framed {
        match key {
            RequestKey::Bytes(bytes) => {
                Framed { form: tollgate::Form::Plain, bytes: bytes.to_vec() }
            }
            RequestKey::Address(address) => {
                address.with_key(|key| Framed { form: key.form(), bytes: key.bytes().to_vec() })
            }
            RequestKey::Parts(parts) => {
                let framed: Vec<Framed> = parts.iter().map(Framed::of).collect();
                Parts(&framed)
                    .with_key(|key| Framed { form: key.form(), bytes: key.bytes().to_vec() })
            }
        }
    }
}

impl Key for Framed {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::from_parts(self.form, &self.bytes))
    }
}
