//! What `tollgate-http` holds to, without a framework.

#![allow(clippy::unwrap_used)] // helpers of tests

mod away;
mod callers;
mod choosers;
mod client_ips;
mod gates;
mod heads;
mod keys;
mod problems;
mod settles;
mod written;
