//! Whole simulations.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bounds;
mod reports;
