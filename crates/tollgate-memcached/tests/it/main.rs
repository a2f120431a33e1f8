//! Tests of the Memcached store with real servers, which the tests start and stop on free ports of
//! the loopback.
//!
//! Without `memcached` on this machine the whole binary is skipped with a message. If
//! `TOLLGATE_NO_SKIP` is set, that is a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod client;
mod clocks;
mod conformance;
mod failures;
mod keys;
mod server;
mod trips;
