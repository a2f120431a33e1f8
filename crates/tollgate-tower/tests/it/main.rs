//! Real servers on free ports of the loopback, and real clients.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

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
