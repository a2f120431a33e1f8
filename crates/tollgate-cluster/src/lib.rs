//! Limits across many nodes at in-process speed, each with a bound on what it may admit too much.
//!
//! - [`leased`]: nodes draw allotments from a shared store and spend them without a round trip.
//!   Never more is admitted than the limit allows.
//! - [`replicated`]: every node counts, and sends its counts to the others over a [`bus`]. There is
//!   no store. Each decision says how much may have been admitted too much.

pub mod bus;
pub mod leased;
pub mod replicated;

mod clock;
mod counter;

pub use clock::BootClock;
pub use leased::{LeaseStats, Leased, LeasedBuilder};
