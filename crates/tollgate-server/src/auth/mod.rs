//! Who may ask: tokens, of which only hashes are known.

mod gate;
mod token;

pub use gate::Gate;
pub use token::{Hash, Token, Tokens};
