//! Tests of durable stores: on files, on a disk that fails on request, and in processes that are
//! killed.

// In helpers of tests as in tests.
#![allow(clippy::unwrap_used)]

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
