//! Tests of durable stores: on files, on a disk that fails on request, and in processes that are
//! killed.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod conformance;
mod crash;
mod damage;
mod disk;
mod files;
mod full;
mod inspect;
mod killed;
mod levels;
mod real_time;
mod waiting;
