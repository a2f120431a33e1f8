//! Real servers on free ports of the loopback, and real clients.

mod axum_server;
mod net;
