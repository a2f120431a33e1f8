//! The HTTP port, over sockets.

mod answers;
mod client;
mod hostile;
mod proxies;
mod stop;

pub(crate) use client::Client;
