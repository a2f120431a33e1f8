//! Real servers with several workers on real sockets, and a client that is not actix.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

#[path = "../../../tollgate-http/tests/it/away.rs"]
mod away;
mod client;
mod server;

mod addresses;
mod counts;
mod failures;
mod responses;
mod rules;
mod settling;
