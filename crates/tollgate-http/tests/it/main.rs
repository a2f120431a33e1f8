//! Tests of `tollgate-http` without a framework.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod away;
mod callers;
mod choosers;
mod client_ips;
mod gates;
mod headers;
mod heads;
mod keys;
mod problems;
mod settles;
