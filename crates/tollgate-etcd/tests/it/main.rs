//! Tests of the etcd store with real members, which the tests start and stop on free ports of the
//! loopback.
//!
//! Without `etcd` on this machine the whole binary is skipped with a message. If `TOLLGATE_NO_SKIP`
//! is set, that is a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod bare;
mod client;
mod clocks;
mod conformance;
mod failures;
mod leases;
mod servers;
mod trips;
