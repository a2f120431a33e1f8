//! One test binary: each module holds the tests of one concern.

mod planted;
mod stores;
mod vectors;
