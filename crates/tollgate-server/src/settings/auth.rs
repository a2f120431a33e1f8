//! Who may ask.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::auth::{Hash, Tokens};

/// Tokens, by the name of their owner: only their hashes, as `tollgate token` makes them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Of who may ask: on HTTP, gRPC and RESP.
    pub tokens: BTreeMap<String, String>,
    /// Of who may see metrics and busiest keys.
    pub admin_tokens: BTreeMap<String, String>,
    /// Ports that other machines can reach may be open to everybody.
    pub allow_anonymous: bool,
}

impl AuthSettings {
    /// Of who may ask.
    ///
    /// # Errors
    /// When a hash is none.
    pub fn tokens(&self) -> Result<Tokens, String> {
        parsed("tokens", &self.tokens)
    }

    /// Of who may see metrics.
    ///
    /// # Errors
    /// When a hash is none.
    pub fn admin_tokens(&self) -> Result<Tokens, String> {
        parsed("admin_tokens", &self.admin_tokens)
    }
}

fn parsed(kind: &str, hashes: &BTreeMap<String, String>) -> Result<Tokens, String> {
    let parse = |(name, hash): (&String, &String)| match hash.parse::<Hash>() {
        Ok(hash) => Ok((name.clone(), hash)),
        Err(error) => Err(format!("auth: {kind}: {name}: {error}")),
    };
    hashes.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_place_of_its_hash_is_refused_and_not_repeated() {
        let settings: AuthSettings = toml::from_str("[tokens]\nshop = 'tg_secret'").unwrap();
        let error = settings.tokens().unwrap_err();
        assert!(error.starts_with("auth: tokens: shop: 9 characters that are no hash"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
