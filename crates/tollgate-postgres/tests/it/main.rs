//! PostgreSQL under test: real servers, started and stopped by the tests on free ports of the
//! loopback.
//!
//! If PostgreSQL is not installed, the whole binary is skipped, with a line that says so; where
//! `TOLLGATE_NO_SKIP` is set that is a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

mod client;
mod conformance;
mod failures;
mod hits;
mod servers;
mod trips;
