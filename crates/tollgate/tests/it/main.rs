//! The integration tests of this crate, in one binary.

mod architecture;
mod bans;
mod calendar;
mod plain_calls;
mod properties;
mod readme;
mod shared;
mod stores;
mod text;
mod threads;
mod waiting;
mod wire_receipts;
