//! Runs limits against generated traffic: how much do they admit, whom do they deny, and how long
//! do clients wait?
//!
//! ```text
//! load ──▶ arrivals ──▶ attempts ──▶ limiter ──▶ outcome ──▶ report
//! seed     load         simulation   production  outcome     report
//!                          ▲         algorithms
//!                          └── retry: at once, after Retry-After, with back-off
//! ```
//!
//! - The decisions are those of a [`Memory`](tollgate::Memory) store on a clock that the simulation
//!   sets: the code that a server runs. A day takes seconds.
//! - The arrivals come from a seed. Every limit that is compared gets the same ones.
//!
//! ```
//! use tollgate_simulate::{Group, Simulation};
//!
//! let group = Group { load: "poisson 3/second".parse()?, clients: 5, ..Group::default() };
//! let simulation = Simulation { groups: vec![group], ..Simulation::default() };
//! let outcome = simulation.run(&"100/minute burst=20".parse()?, |_| {})?;
//! assert_eq!(outcome.requests, outcome.admitted + outcome.given_up + outcome.waiting);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The command `tollgate simulate` is made of this crate.

#![forbid(unsafe_code)]

mod load;
mod outcome;
mod random;
mod report;
mod retry;
mod simulation;
mod waits;

pub use load::Load;
pub use outcome::{GroupOutcome, Outcome};
pub use report::Report;
pub use retry::Retry;
pub use simulation::{Attempt, Group, Simulation};
pub use waits::Waits;
