//! What a store made of cells promises.

// In helpers of tests as in tests.
#![allow(clippy::unwrap_used)]

mod conformance;
mod failures;
mod time;
mod trips;
mod watched;
