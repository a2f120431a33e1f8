//! One test binary: each module holds the tests of one concern.

mod planted;
mod planted_holds;
mod stores;
mod vectors;
