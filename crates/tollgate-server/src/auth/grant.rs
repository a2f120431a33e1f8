//! Tokens with a scope.

use std::fmt;

use clap::ValueEnum;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::Hash;

/// The actions that a token of the admin port permits.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Reading: metrics, rules, keys.
    Read,
    /// Reading, and changing the counts of keys.
    #[default]
    Operate,
}

impl TokenScope {
    /// The name in the configuration and in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TokenScope::Read => "read",
            TokenScope::Operate => "operate",
        }
    }
}

/// The hash of a token, and what the token permits.
///
/// In a file it is a hash, which permits everything, or a table:
///
/// ```
/// use tollgate_server::auth::{Hash, TokenGrant, TokenScope};
/// let hash = Hash::from_token(b"secret");
/// let text = format!("hash = '{hash}'\nscope = 'read'");
/// assert_eq!(toml::from_str::<TokenGrant>(&text)?, TokenGrant { hash, scope: TokenScope::Read });
/// assert_eq!(TokenGrant::from(hash).scope, TokenScope::Operate);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// The hash of the token.
    pub hash: Hash,
    /// The scope of the token.
    pub scope: TokenScope,
}

impl From<Hash> for TokenGrant {
    fn from(hash: Hash) -> Self {
        TokenGrant { hash, scope: TokenScope::default() }
    }
}

/// The form of a grant that is a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    hash: Hash,
    #[serde(default)]
    scope: TokenScope,
}

struct GrantVisitor;

impl<'de> Visitor<'de> for GrantVisitor {
    type Value = TokenGrant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the hash of a token, or a table with hash and scope")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TokenGrant, E> {
        text.parse::<Hash>().map(TokenGrant::from).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TokenGrant, A::Error> {
        let Table { hash, scope } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(TokenGrant { hash, scope })
    }
}

impl<'de> Deserialize<'de> for TokenGrant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(GrantVisitor)
    }
}
