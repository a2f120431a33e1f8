//! Tests of the Redis store with real servers, which the tests start and stop on free ports of the
//! loopback.
//!
//! Without `redis-server` on this machine the whole binary is skipped with a message. If
//! `TOLLGATE_NO_SKIP` is set, that is a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod announcements;
mod batches;
mod client;
mod conformance;
mod failures;
mod keys;
mod lifetime;
mod servers;
mod trips;
