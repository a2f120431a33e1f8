//! What operators read: the log, and traces. Never a key, never a token.

mod client;
mod log;
mod seldom;
mod traces;

pub(crate) use log::denied;
pub use log::start as start_log;
pub use seldom::Seldom;
pub use traces::{Span, Tracer};
