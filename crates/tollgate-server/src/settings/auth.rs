//! Who may ask.

use serde::Deserialize;

use crate::auth::Tokens;

/// Tokens, by the name of their owner: only their hashes, as `tollgate token` makes them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Of who may ask: on HTTP, gRPC and RESP.
    pub tokens: Tokens,
    /// Of who may see metrics and busiest keys.
    pub admin_tokens: Tokens,
    /// Ports that other machines can reach may be open to everybody.
    pub allow_anonymous: bool,
}
