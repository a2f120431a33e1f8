//! Who may ask: tokens, of which only hashes are known.

mod gate;
mod gates;
mod token;

pub use gate::Gate;
pub use gates::Gates;
pub use token::{Hash, Token, Tokens};
