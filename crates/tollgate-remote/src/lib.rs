//! The parts that stores of [`tollgate`] behind a network share, so that each of them holds only
//! what is specific to it.

mod runtime;

pub use runtime::Tokio;
