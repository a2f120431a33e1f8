//! Who may ask: the one place where `AUTH` and `HELLO AUTH` are judged.

use std::fmt::Debug;

use crate::auth::Gate;

/// What a client must show before it may ask.
pub trait Auth: Debug + Send + Sync {
    /// Whether anybody may ask without a word.
    fn is_open(&self) -> bool;

    /// Whether somebody who shows this may ask. `user` is `default` unless the client names one.
    fn admits(&self, user: &[u8], secret: &[u8]) -> bool;
}

/// Tokens: as a password, with the name of their owner or without.
impl Auth for Gate {
    fn is_open(&self) -> bool {
        Gate::is_open(self)
    }

    fn admits(&self, user: &[u8], secret: &[u8]) -> bool {
        self.admits_as((user != b"default").then_some(user), secret)
    }
}
