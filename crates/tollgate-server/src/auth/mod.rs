//! Tokens that admit clients. The server knows only their hashes.

mod gate;
mod gates;
mod token;

pub use gate::ClientGate;
pub use gates::Gates;
pub use token::{Hash, Token, Tokens};
