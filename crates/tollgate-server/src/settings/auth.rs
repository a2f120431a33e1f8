//! Tokens of clients.

use serde::Deserialize;

use crate::auth::Tokens;

/// Tokens by the name of their owner. Only hashes are stored, as `tollgate token` prints them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Tokens for the HTTP, gRPC and RESP ports.
    #[serde(deserialize_with = "Tokens::without_scopes")]
    pub tokens: Tokens,
    /// Tokens for the admin port, each with its scope.
    pub admin_tokens: Tokens,
    /// Lets ports that other machines can reach admit clients without a token.
    pub allow_anonymous: bool,
}
