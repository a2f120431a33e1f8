//! The gates of all ports.

use std::sync::Arc;

use super::{ClientGate, Tokens};
use crate::observe::Protocol;

/// One gate for HTTP, gRPC and RESP, one for the admin port.
///
/// ```
/// use tollgate_server::auth::{Gates, Hash, Tokens};
/// use tollgate_server::observe::Protocol;
/// let tokens = || [("shop".to_owned(), Hash::from_token(b"secret"))].into_iter().collect();
/// let gates = Gates::new(tokens(), Tokens::default());
/// assert!(!gates.of(Protocol::Resp).is_open() && gates.of(Protocol::Admin).is_open());
/// gates.replace(Tokens::default(), tokens());
/// assert_eq!(gates.shut(), ["auth.tokens"]);
/// assert!(!gates.of(Protocol::Resp).admits(b"secret"));
/// assert!(gates.of(Protocol::Admin).admits(b"secret"));
/// ```
#[derive(Clone, Debug)]
pub struct Gates {
    asks: Arc<ClientGate>,
    operates: Arc<ClientGate>,
}

impl Gates {
    /// Makes the gates for the tokens of the clients' ports and of the admin port.
    #[must_use]
    pub fn new(asks: Tokens, operates: Tokens) -> Gates {
        Gates {
            asks: Arc::new(ClientGate::new(asks)),
            operates: Arc::new(ClientGate::new(operates)),
        }
    }

    /// The gate of a port.
    #[must_use]
    pub fn of(&self, protocol: Protocol) -> Arc<ClientGate> {
        Arc::clone(if protocol == Protocol::Admin { &self.operates } else { &self.asks })
    }

    /// Replaces the tokens. See [`ClientGate::replace`].
    pub fn replace(&self, asks: Tokens, operates: Tokens) {
        self.asks.replace(asks);
        self.operates.replace(operates);
    }

    /// The settings that have no token any more, so that their ports admit no client.
    #[must_use]
    pub fn shut(&self) -> Vec<&'static str> {
        let gates = [("auth.tokens", &self.asks), ("auth.admin_tokens", &self.operates)];
        gates.into_iter().filter(|(_, gate)| gate.is_shut()).map(|(setting, _)| setting).collect()
    }
}
