//! Tests of the server from outside.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod backend;
mod cli;
mod cluster;
mod config;
mod dashboard;
mod envoy;
mod grpc;
mod http;
mod operate;
mod readme;
mod receipts;
mod replay;
mod resp;
mod server;
mod top;
