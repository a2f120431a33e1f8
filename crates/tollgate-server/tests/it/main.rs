//! The server as its clients see it.

mod grpc;
mod resp;
mod server;
