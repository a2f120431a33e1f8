//! Checks the credentials of `AUTH` and `HELLO AUTH`.

use std::fmt::Debug;

use crate::auth::ClientGate;

/// Checks the credentials of clients.
pub trait Auth: Debug + Send + Sync {
    /// Whether clients need no credentials.
    fn is_open(&self) -> bool;

    /// Whether the credentials are valid. `user` is `default` unless the client names one.
    fn admits(&self, user: &[u8], secret: &[u8]) -> bool;
}

/// A token is a password, with the name of its owner or without.
impl Auth for ClientGate {
    fn is_open(&self) -> bool {
        ClientGate::is_open(self)
    }

    fn admits(&self, user: &[u8], secret: &[u8]) -> bool {
        self.admits_as((user != b"default").then_some(user), secret)
    }
}
