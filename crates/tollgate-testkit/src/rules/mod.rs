//! The rules, one function each. [`conformance!`](crate::conformance) makes a test of each of them; here they are for whoever wants to run one by hand.

pub mod concurrent;
pub mod keys;
pub mod sequences;
pub mod vectors;
