//! Limits across many nodes at in-process speed, each with a bound on what it may admit too much.
//!
//! [`leased`]: nodes draw allotments from a shared store and spend them without a round trip. Never more is admitted than the limit allows.

pub mod leased;

mod clock;

pub use clock::BootClock;
pub use leased::{LeaseStats, Leased, LeasedBuilder};
