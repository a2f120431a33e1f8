//! Tests of leases and replicas.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod leased;
mod replicated;
mod replicated_conformance;
#[cfg(all(feature = "nats", feature = "redis"))]
mod replicated_engines;
mod replicated_sim;
#[cfg(all(feature = "nats", feature = "redis"))]
mod replicated_tls;
