//! Keys: several in one call, in a cluster and elsewhere, and deleting them.

mod clear;
mod clocks;
mod several;
