//! Tests of leases and replicas.

// In helpers of tests as in tests.
#![allow(clippy::unwrap_used)]

mod leased;
mod replicated;
mod replicated_conformance;
#[cfg(all(feature = "nats", feature = "redis"))]
mod replicated_engines;
mod replicated_sim;
#[cfg(all(feature = "nats", feature = "redis"))]
mod replicated_tls;
