//! Who may ask: the one place where `AUTH` and `HELLO AUTH` are judged.

use std::fmt::Debug;

/// What a client must show before it may ask.
pub trait Auth: Debug + Send + Sync {
    /// Whether anybody may ask without a word.
    fn is_open(&self) -> bool;

    /// Whether somebody who shows this may ask. `user` is `default` unless the client names one.
    fn admits(&self, user: &[u8], secret: &[u8]) -> bool;
}

/// Nobody has to show anything; whatever is shown will do.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl Auth for Open {
    fn is_open(&self) -> bool {
        true
    }

    fn admits(&self, _user: &[u8], _secret: &[u8]) -> bool {
        true
    }
}
