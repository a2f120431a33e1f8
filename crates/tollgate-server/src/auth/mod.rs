//! Tokens that admit clients. The server knows only their hashes.

mod gate;
mod gates;
mod grant;
mod token;

pub use gate::{ClientGate, Owner};
pub use gates::Gates;
pub use grant::{TokenGrant, TokenScope};
pub(crate) use token::random;
pub use token::{Hash, Token, Tokens};
