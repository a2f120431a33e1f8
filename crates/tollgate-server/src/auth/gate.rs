//! Decides which clients a port admits.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, header};

use super::{Hash, TokenGrant, TokenScope, Tokens};

/// The challenge for a client that sent no token.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate\"");

/// Admits clients that show a token. A gate that was made without tokens admits everybody.
///
/// ```
/// use tollgate_server::auth::{ClientGate, Hash};
/// let gate = ClientGate::new([("shop".to_owned(), Hash::from_token(b"secret"))].into_iter().collect());
/// assert!(gate.admits(b"secret") && !gate.admits(b"guess"));
/// assert!(ClientGate::default().admits(b"whatever"));
/// ```
#[derive(Debug, Default)]
pub struct ClientGate(ArcSwap<Admits>);

#[derive(Debug, Default)]
enum Admits {
    #[default]
    Everybody,
    /// Nobody, if there are none.
    Owners(Tokens),
}

/// The owner of a token that a gate admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The name of the token in the configuration.
    pub name: String,
    /// The scope of the token.
    pub scope: TokenScope,
    /// The hash of the token.
    pub hash: Hash,
}

impl ClientGate {
    /// Creates a gate that admits the owners of these tokens, or every client if there are none.
    #[must_use]
    pub fn new(tokens: Tokens) -> ClientGate {
        let admits = if tokens.is_empty() { Admits::Everybody } else { Admits::Owners(tokens) };
        ClientGate(ArcSwap::from_pointee(admits))
    }

    /// Replaces the tokens. Without tokens a gate that asked for one admits nobody: removing the
    /// last token revokes it, and does not open the port to everybody.
    pub fn replace(&self, tokens: Tokens) {
        if !tokens.is_empty() || !self.is_open() {
            self.0.store(Arc::new(Admits::Owners(tokens)));
        }
    }

    /// Whether no client needs a token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(**self.0.load(), Admits::Everybody)
    }

    /// Whether nobody is admitted, because the last token was removed.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        matches!(&**self.0.load(), Admits::Owners(tokens) if tokens.is_empty())
    }

    /// Whether a client with this token is admitted.
    #[must_use]
    pub fn admits(&self, token: &[u8]) -> bool {
        self.admits_as(None, token)
    }

    /// Whether a client with this token is admitted that may have given the name of its owner as
    /// well.
    #[must_use]
    pub fn admits_as(&self, name: Option<&[u8]>, token: &[u8]) -> bool {
        let is_named = |owner: &str| name.is_none_or(|name| name == owner.as_bytes());
        match &**self.0.load() {
            Admits::Everybody => true,
            Admits::Owners(tokens) => tokens.owner(token).is_some_and(is_named),
        }
    }

    /// Whether a request with these headers may be answered: `Authorization: Bearer …`.
    #[must_use]
    pub fn admits_headers(&self, headers: &HeaderMap) -> bool {
        self.is_open() || bearer(headers).is_some_and(|token| self.admits(token))
    }

    /// The owner of the token in these headers: `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer(&self, headers: &HeaderMap) -> Option<Owner> {
        self.owner(&Hash::from_token(bearer(headers)?))
    }

    /// The owner of the token with this hash; `None` for a gate that admits everybody.
    ///
    /// ```
    /// use tollgate_server::auth::{ClientGate, Hash, TokenScope};
    /// let hash = Hash::from_token(b"secret");
    /// let gate = ClientGate::new([("shop".to_owned(), hash)].into_iter().collect());
    /// assert!(gate.owner(&hash).is_some_and(|owner| owner.scope == TokenScope::Operate));
    /// assert_eq!(gate.owner(&Hash::from_token(b"guess")), None);
    /// ```
    #[must_use]
    pub fn owner(&self, hash: &Hash) -> Option<Owner> {
        let Admits::Owners(tokens) = &**self.0.load() else { return None };
        let (name, TokenGrant { hash, scope }) = tokens.find(hash)?;
        Some(Owner { name: name.to_owned(), scope, hash })
    }

    /// The value of `WWW-Authenticate` for a client that was not admitted.
    #[must_use]
    pub fn challenge(headers: &HeaderMap) -> HeaderValue {
        match bearer(headers) {
            Some(_) => {
                HeaderValue::from_static("Bearer realm=\"tollgate\", error=\"invalid_token\"")
            }
            None => CHALLENGE,
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Hash;

    fn gate() -> ClientGate {
        ClientGate::new([("shop".to_owned(), Hash::from_token(b"secret"))].into_iter().collect())
    }

    #[test]
    fn only_a_bearer_with_a_token_is_let_in() {
        for (value, admitted) in [
            ("Bearer secret", true),
            ("bearer  secret ", true),
            ("Bearer Secret", false),
            ("Bearer", false),
            ("Bearer ", false),
            ("Basic secret", false),
            ("secret", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(gate().admits_headers(&headers), admitted, "{value:?}");
            assert!(ClientGate::default().admits_headers(&headers));
        }
        assert!(!gate().admits_headers(&HeaderMap::new()));
    }

    #[test]
    fn who_names_itself_is_the_owner() {
        assert!(gate().admits_as(None, b"secret"));
        assert!(gate().admits_as(Some(b"shop"), b"secret"));
        assert!(!gate().admits_as(Some(b"other"), b"secret"));
        assert!(!gate().admits_as(Some(b"shop"), b"guess"));
    }

    #[test]
    fn removing_the_last_token_admits_nobody() {
        let gate = gate();
        gate.replace([("new".to_owned(), Hash::from_token(b"other"))].into_iter().collect());
        assert!(gate.admits(b"other") && !gate.admits(b"secret") && !gate.is_shut());
        gate.replace(Tokens::default());
        assert!(gate.is_shut() && !gate.is_open());
        assert!(!gate.admits(b"other") && !gate.admits(b"") && !gate.admits_as(None, b"secret"));
        gate.replace([("new".to_owned(), Hash::from_token(b"other"))].into_iter().collect());
        assert!(gate.admits(b"other") && !gate.is_shut());
    }

    #[test]
    fn a_gate_without_tokens_stays_open_until_it_gets_one() {
        let gate = ClientGate::default();
        gate.replace(Tokens::default());
        assert!(gate.is_open() && gate.admits(b"whatever"));
    }
}
