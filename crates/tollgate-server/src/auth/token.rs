//! Tokens and their hashes.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

use super::TokenGrant;

/// How tokens of ours begin, so that programs that look for secrets in texts find them.
const BEGIN: &str = "tg_";

/// A secret that its owner shows with every request. A hash without salt is enough for one that no
/// dictionary has: [`Token::new`] makes those.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The hash of a token, which is all that the server keeps.
///
/// ```
/// use tollgate_server::auth::Hash;
/// let hash = Hash::from_token(b"secret");
/// let text = hash.to_string();
/// assert_eq!(text, "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");
/// assert_eq!(text.parse(), Ok(hash));
/// ```
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Hash([u8; 32]);

/// The tokens of a port, by name.
///
/// ```
/// use tollgate_server::auth::{Hash, Tokens};
/// let tokens: Tokens = [("shop".to_owned(), Hash::from_token(b"secret"))].into_iter().collect();
/// assert_eq!(tokens.owner(b"secret"), Some("shop"));
/// assert_eq!(tokens.owner(b"Secret"), None);
/// ```
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Tokens(BTreeMap<String, TokenGrant>);

impl Token {
    /// Creates a random token, which nobody can guess.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new() -> Result<Token, String> {
        Ok(Token(format!("{BEGIN}{}", random()?)))
    }

    /// To be shown once, to its owner.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The hash that the server keeps.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash::from_token(self.0.as_bytes())
    }
}

/// Never in a log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Hash {
    /// The hash of a token that a client sent.
    #[must_use]
    pub fn from_token(token: &[u8]) -> Hash {
        Hash(Sha256::digest(token).into())
    }

    /// Compares two hashes. The time does not depend on the position of the first difference.
    pub(crate) fn is(&self, other: &Hash) -> bool {
        let differs = self.0.iter().zip(&other.0).fold(0, |differs, (a, b)| differs | (a ^ b));
        std::hint::black_box(differs) == 0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl FromStr for Hash {
    type Err = String;

    /// The text is not repeated in the error: it may be the token itself.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let mut hash = [0; 32];
        let parsed = digits.len() == 64
            && digits.is_ascii()
            && hash.iter_mut().enumerate().all(|(index, byte)| {
                let pair = &digits[2 * index..2 * index + 2];
                let valid = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
                valid && u8::from_str_radix(pair, 16).map(|value| *byte = value).is_ok()
            });
        if parsed {
            return Ok(Hash(hash));
        }
        let length = text.len();
        Err(format!(
            "{length} characters that are no hash of a token: expected sha256: and 64 hexadecimal digits; `tollgate token` makes a token and its hash"
        ))
    }
}

impl TryFrom<String> for Hash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Tokens {
    /// Whether there are no tokens: then no client needs one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the token's owner.
    #[must_use]
    pub fn owner(&self, token: &[u8]) -> Option<&str> {
        self.find(&Hash::from_token(token)).map(|(name, _)| name)
    }

    /// The name and the grant of a token by its hash. It compares with every hash, so that the time
    /// that it takes does not depend on the token.
    pub(super) fn find(&self, shown: &Hash) -> Option<(&str, TokenGrant)> {
        let mut found = None;
        for (name, grant) in &self.0 {
            if grant.hash.is(shown) {
                found = Some((&name[..], *grant));
            }
        }
        found
    }

    /// Reads tokens that have no scope.
    pub(crate) fn without_scopes<'de, D>(from: D) -> Result<Tokens, D::Error>
    where
        D: Deserializer<'de>,
    {
        Ok(BTreeMap::<String, Hash>::deserialize(from)?.into_iter().collect())
    }
}

impl<G: Into<TokenGrant>> Extend<(String, G)> for Tokens {
    fn extend<I: IntoIterator<Item = (String, G)>>(&mut self, all: I) {
        self.0.extend(all.into_iter().map(|(name, grant)| (name, grant.into())));
    }
}

impl<G: Into<TokenGrant>> FromIterator<(String, G)> for Tokens {
    fn from_iter<I: IntoIterator<Item = (String, G)>>(all: I) -> Self {
        let mut tokens = Tokens::default();
        tokens.extend(all);
        tokens
    }
}

/// 32 random bytes as hexadecimal digits.
pub(crate) fn random() -> Result<String, String> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| "the system gives no random bytes".to_owned())?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_token_is_different_and_not_shown_by_debug() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_ne!(one, other);
        assert!(one.reveal().starts_with("tg_") && one.reveal().len() == 67);
        assert_eq!(format!("{one:?}"), "Token(***)");
        assert!(!one.hash().to_string().contains(&one.reveal()[3..]));
    }

    #[test]
    fn a_hash_is_parsed_with_and_without_its_prefix() {
        let hash = Hash::from_token(b"x");
        let text = hash.to_string();
        assert_eq!(text[7..].parse(), Ok(hash));
        assert_eq!(text[7..].to_uppercase().parse(), Ok(hash));
        for wrong in
            ["", "sha256:", &text[..70], "tg_secret", &format!("{text}0"), &"+1".repeat(32)]
        {
            let error = wrong.parse::<Hash>().unwrap_err();
            assert!(wrong.len() < 2 || !error.contains(&wrong[7..]) || wrong.len() == 7, "{error}");
        }
    }
}
