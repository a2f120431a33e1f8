//! Keys: several at once, in a cluster and elsewhere, and forgetting them.

mod clear;
mod clocks;
mod several;
