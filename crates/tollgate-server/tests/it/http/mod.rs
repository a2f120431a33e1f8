//! The HTTP port over sockets.

mod answers;
mod browser;
mod client;
mod guide;
mod hostile;
pub(crate) mod proxies;
mod stop;

pub(crate) use client::Client;
