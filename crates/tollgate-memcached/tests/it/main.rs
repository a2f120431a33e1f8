//! Tests of the Memcached store with real servers, which the tests start and stop on free ports of
//! the loopback.
//!
//! Without `memcached` on this machine the whole binary is skipped with a message. If
//! `TOLLGATE_NO_SKIP` is set, that is a failure.

// In helpers of tests as in tests.
#![allow(clippy::unwrap_used)]

mod client;
mod clocks;
mod conformance;
mod failures;
mod keys;
mod server;
mod trips;
