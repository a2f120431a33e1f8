//! Log and traces. They never contain a key or a token.

mod client;
mod log;
mod seldom;
mod traces;

pub(crate) use log::denied;
pub use log::start as start_log;
pub use seldom::Seldom;
pub use traces::{Span, Tracer};
