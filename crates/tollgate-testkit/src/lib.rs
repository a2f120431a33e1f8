//! The conformance suite of tollgate.

mod beside;
mod conformance;
mod executor;
mod ground;
mod model;
#[doc(hidden)]
pub mod not_claimed;
mod random;
pub mod rules;
mod sequence;
mod subject;
pub mod vectors;

pub use executor::block_on;
pub use random::{CASES, SEED};
pub use subject::{Kept, OneStore, Subject};
