//! One test binary: each module holds the tests of one concern.

mod stores;
mod vectors;
