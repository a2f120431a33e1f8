//! The server as its clients see it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod backend;
mod cli;
mod cluster;
mod config;
mod envoy;
mod grpc;
mod http;
mod operate;
mod readme;
mod resp;
mod server;
