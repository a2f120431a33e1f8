//! tollgate as a server: rules from a file, decisions over HTTP, gRPC and RESP, on any store.
//!
//! People use the binary `tollgate`. This library holds its code for tests and benchmarks. The path
//! of a request:
//!
//! ```text
//! port ──▶ net ──▶ resp | http | grpc ──▶ Service::ask ──▶ rule ──▶ limiter on the store ──▶ Answer ──▶ the same way back
//! ```

pub mod admin;
pub mod auth;
pub mod cli;
pub mod config;
pub mod grpc;
pub mod http;
pub mod net;
pub mod observe;
pub mod reload;
pub mod resp;
pub mod rules;
mod seconds;
pub mod service;
pub mod settings;
pub mod telemetry;
