//! The rules, one function each. [`conformance!`](crate::conformance) makes a test of each; they
//! are public so that a rule can be run by hand.

pub mod bans;
pub mod concurrent;
pub mod denials;
pub mod denied;
pub mod extremes;
pub mod holds;
pub mod keys;
pub mod lifetime;
pub mod outage;
pub mod processes;
pub mod sequences;
pub mod times;
pub mod together;
pub mod vectors;
