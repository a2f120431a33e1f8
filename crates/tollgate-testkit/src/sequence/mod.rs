//! Random sequences of calls, on a store and on the definition side by side.

mod case;
mod compare;
mod keys;
mod replay;
mod script;
mod shrink;

pub(crate) use replay::Way;
pub use script::sequences_as_json;
pub(crate) use shrink::for_any_case;
