//! Redis' protocol, both versions: the commands of redis-cell and throttlecrab, and tollgate's own.
//!
//! ```text
//! bytes ──▶ parser ──▶ session: dispatch ──▶ store command ──▶ Service ──▶ reply format ──▶ bytes
//!                      handshake · throttle · native   waiting: commands that wait, together
//! ```
//!
//! The replies to all commands that have arrived are written together. On a store in this process a
//! command is finished before the next one starts; on a remote one the commands of a pipeline wait
//! for it at the same time.

mod auth;
mod buffer;
mod commands;
mod connection;
mod handshake;
mod input_bounds;
mod line;
mod native;
mod parser;
mod reply;
mod reply_format;
mod session;
mod store_command;
mod throttle;
mod trace;
mod transaction;
mod waiting;

pub use auth::Auth;
pub use input_bounds::InputBounds;
pub use parser::{Command, Parser, ProtocolError};

use std::sync::Arc;

use tollgate::SystemClock;

use crate::net::{Draining, Port};
use crate::service::Service;
use connection::Connection;
use session::Session;

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, draining: Draining) {
    let auth: Arc<dyn Auth> = port.gate();
    let (patience, tracer) = (port.patience(), port.tracer().map(Arc::new));
    let clock = SystemClock::new();
    port.serve(draining, move |stream, peer, draining| {
        let session = Session::new(Arc::clone(&auth), peer, tracer.clone());
        let connection = Connection::new(stream, Arc::clone(&service), clock, session);
        connection.patient_for(patience).talk(draining)
    })
    .await;
}
