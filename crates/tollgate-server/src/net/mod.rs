//! Ports: listening, connections, TLS, draining.

mod drain;
mod expiry;
mod port;
mod room;
mod stream;
mod tls;

pub use drain::{Drain, Draining};
pub(crate) use expiry::Expiry;
pub use port::Port;
pub use room::{Most, Room, Seat, Seats};
pub use stream::Stream;
pub use tls::{Tls, TlsFiles};
