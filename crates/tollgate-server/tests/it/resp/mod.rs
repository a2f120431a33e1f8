//! The RESP port, tested byte by byte and with third-party clients.

mod client;
mod clients;
mod handshake;
mod here;
mod hostile;
mod native;
mod parser;
mod pipeline;
mod stop;
mod store;
mod throttle;
mod transactions;

pub(crate) use client::{Client, Value};
