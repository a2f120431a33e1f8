//! Many nodes under test.

// In helpers of tests as in tests.
#![allow(clippy::unwrap_used)]

mod replicated;
mod replicated_conformance;
mod replicated_sim;
