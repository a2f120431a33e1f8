//! The gates of all ports.

use std::sync::Arc;

use super::{Gate, Tokens};
use crate::observe::Protocol;

/// One gate for who asks, one for who operates.
///
/// ```
/// use tollgate_server::auth::{Gates, Hash, Tokens};
/// use tollgate_server::observe::Protocol;
/// let tokens = || [("shop".to_owned(), Hash::of(b"secret"))].into_iter().collect();
/// let gates = Gates::new(tokens(), Tokens::default());
/// assert!(!gates.of(Protocol::Resp).is_open() && gates.of(Protocol::Admin).is_open());
/// assert!(gates.replace(Tokens::default(), tokens()).is_err());
/// assert!(gates.of(Protocol::Admin).is_open(), "all or nothing");
/// ```
#[derive(Clone, Debug)]
pub struct Gates {
    asks: Arc<Gate>,
    operates: Arc<Gate>,
}

impl Gates {
    /// For these tokens: of who asks, and of who operates.
    #[must_use]
    pub fn new(asks: Tokens, operates: Tokens) -> Gates {
        Gates { asks: Arc::new(Gate::new(asks)), operates: Arc::new(Gate::new(operates)) }
    }

    /// The gate of a port.
    #[must_use]
    pub fn of(&self, protocol: Protocol) -> Arc<Gate> {
        Arc::clone(if protocol == Protocol::Admin { &self.operates } else { &self.asks })
    }

    /// Other tokens from now on.
    ///
    /// # Errors
    /// When a gate would open to everybody: then both stay as they are.
    pub fn replace(&self, asks: Tokens, operates: Tokens) -> Result<(), String> {
        self.asks.may_be(&asks)?;
        self.operates.may_be(&operates)?;
        self.asks.replace(asks)?;
        self.operates.replace(operates)
    }
}
