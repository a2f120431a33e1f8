//! The conformance suite of tollgate.

mod conformance;
mod executor;
mod ground;
mod model;
mod random;
pub mod rules;
mod sequence;
mod subject;
pub mod vectors;

pub use executor::block_on;
pub use random::{CASES, SEED};
pub use subject::{Kept, OneStore, Subject};
