//! Real servers with several workers on real sockets, and a client that is not actix.

#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "../../../tollgate-http/tests/it/away.rs"]
mod away;
mod client;
mod server;

mod addresses;
mod counts;
mod failures;
mod rules;
mod settling;
mod told;
