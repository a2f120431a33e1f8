//! Real servers on free ports of the loopback, and real clients.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod around;
mod axum_server;
mod bodies;
mod clients;
mod counters;
mod counts;
mod failures;
mod flaky;
mod grpc;
mod hyper_server;
mod net;
mod pace;
mod paths;
mod rules;
