//! Ports: listening, connections, and their end.

mod drain;
mod port;
mod stream;

pub use drain::{Drain, Draining};
pub use port::Port;
pub use stream::Stream;
