//! What stands before a port.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, header};

use super::Tokens;

/// What a client is asked for when it shows nothing.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate\"");

/// Lets in who shows a token; everybody, if there are no tokens.
///
/// ```
/// use tollgate_server::auth::{Gate, Hash};
/// let gate = Gate::new([("shop".to_owned(), Hash::of(b"secret"))].into_iter().collect());
/// assert!(gate.admits(b"secret") && !gate.admits(b"guess"));
/// assert!(Gate::default().admits(b"whatever"));
/// ```
#[derive(Debug, Default)]
pub struct Gate(ArcSwap<Tokens>);

impl Gate {
    /// For these tokens.
    #[must_use]
    pub fn new(tokens: Tokens) -> Gate {
        Gate(ArcSwap::from_pointee(tokens))
    }

    /// Other tokens from now on. A gate that asks for one goes on doing so: a port that others can reach does not open by a line left out of a file.
    ///
    /// # Errors
    /// When there are none any more.
    pub fn replace(&self, tokens: Tokens) -> Result<(), String> {
        self.may_be(&tokens)?;
        self.0.store(Arc::new(tokens));
        Ok(())
    }

    pub(super) fn may_be(&self, tokens: &Tokens) -> Result<(), String> {
        if tokens.is_empty() && !self.is_open() {
            return Err("auth: no tokens any more: a port that asked for one would let everybody in; restart the server if that is meant".to_owned());
        }
        Ok(())
    }

    /// Whether nobody has to show anything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.load().is_empty()
    }

    /// Whether who shows this may ask.
    #[must_use]
    pub fn admits(&self, token: &[u8]) -> bool {
        let tokens = self.0.load();
        tokens.is_empty() || tokens.owner(token).is_some()
    }

    /// The same, for who names itself too: as the owner of the token, or not at all.
    #[must_use]
    pub fn admits_as(&self, name: Option<&[u8]>, token: &[u8]) -> bool {
        let tokens = self.0.load();
        let owner = tokens.owner(token);
        let same = |owner: &str| name.is_none_or(|name| name == owner.as_bytes());
        tokens.is_empty() || owner.is_some_and(same)
    }

    /// Whether a request with these headers may be answered: `Authorization: Bearer …`.
    #[must_use]
    pub fn admits_headers(&self, headers: &HeaderMap) -> bool {
        self.is_open() || bearer(headers).is_some_and(|token| self.admits(token))
    }

    /// What to tell whom it did not let in, for `WWW-Authenticate`.
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

    fn gate() -> Gate {
        Gate::new([("shop".to_owned(), Hash::of(b"secret"))].into_iter().collect())
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
            assert!(Gate::default().admits_headers(&headers));
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
    fn tokens_are_replaced_but_never_by_none() {
        let gate = gate();
        gate.replace([("new".to_owned(), Hash::of(b"other"))].into_iter().collect()).unwrap();
        assert!(gate.admits(b"other") && !gate.admits(b"secret"));
        assert!(gate.replace(Tokens::default()).is_err());
        assert!(!gate.admits(b"secret"));
        assert_eq!(Gate::default().replace(Tokens::default()), Ok(()));
    }
}
