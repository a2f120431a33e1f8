//! One test binary: each module holds the tests of one concern.

mod architecture;
mod plain_calls;
mod properties;
mod readme;
mod shared;
mod stores;
mod text;
mod threads;
mod waiting;
