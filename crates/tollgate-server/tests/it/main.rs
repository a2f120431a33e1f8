//! The server as its clients see it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod grpc;
mod operate;
mod resp;
mod server;
