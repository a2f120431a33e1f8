//! Tests of stores on top of `Cells`.

#![expect(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

mod conformance;
mod failures;
mod time;
mod trips;
mod watched;
