//! The URLs of stores.

use std::fmt;

use tollgate::Error;
use tollgate::shared::{percent_decoded, without_secrets};

/// The parts of `scheme://user:password@host:port,host:port/rest`.
///
/// ```
/// use tollgate_remote::StoreUrl;
///
/// let url = StoreUrl::parse("etcd://me:p%40ss@a:1,b/?tls").unwrap();
/// assert_eq!((url.scheme, &url.addresses[..], url.rest), ("etcd", &["a:1", "b"][..], "/?tls"));
/// assert_eq!(url.login.unwrap().password, "p@ss");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreUrl<'a> {
    /// The text before `://`.
    pub scheme: &'a str,
    /// The user and the password, decoded.
    pub login: Option<Login>,
    /// The texts between commas, at least one.
    pub addresses: Vec<&'a str>,
    /// The rest, from the first `/` or `?` on.
    pub rest: &'a str,
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Login {
    pub user: String,
    pub password: String,
}

/// Leaves out the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

impl<'a> StoreUrl<'a> {
    /// The parts of a URL.
    ///
    /// # Errors
    /// The rule that the URL broke: see [`invalid_url`].
    ///
    /// See the example of [`StoreUrl`].
    pub fn parse(url: &'a str) -> Result<StoreUrl<'a>, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(Login::parse(login)?), rest),
            None => (None, rest),
        };
        let (addresses, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        Ok(StoreUrl { scheme, login, addresses: addresses.split(',').collect(), rest })
    }
}

impl Login {
    fn parse(text: &str) -> Result<Login, &'static str> {
        let decoded = |text: &str| {
            let text = percent_decoded(text.as_bytes());
            text.and_then(|text| String::from_utf8(text).ok()).ok_or("a % that escapes nothing")
        };
        let (user, password) = text.split_once(':').ok_or("a user without a password")?;
        Ok(Login { user: decoded(user)?, password: decoded(password)? })
    }
}

/// The error for the URL of a store, without its password.
///
/// ```
/// let error = tollgate_remote::invalid_url("etcd", "etcd://me:secret@", "no host", "etcd://host:port");
/// assert_eq!(error.to_string(), r#"etcd address "etcd://me:***@": no host; expected etcd://host:port"#);
/// ```
#[must_use]
pub fn invalid_url(store: &str, url: &str, problem: &str, expected: &str) -> Error {
    let url = without_secrets(url);
    Error::request(format!("{store} address {url:?}: {problem}; expected {expected}"))
}
