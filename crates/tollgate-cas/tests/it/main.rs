//! What a store made of cells promises.

mod conformance;
mod failures;
mod time;
mod trips;
mod watched;
