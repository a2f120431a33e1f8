//! Redis' protocol, both versions: the commands of redis-cell and throttlecrab, and tollgate's own.
//!
//! ```text
//! bytes ──▶ parser ──▶ session: what does the command want? ──▶ question ──▶ Service ──▶ shape ──▶ reply: bytes
//!                      handshake · throttle · native            flight: those that wait, together
//! ```
//!
//! All commands that have arrived are answered in one write. On a store in this process a command
//! is answered before the next is looked at; on one elsewhere the commands of a pipeline wait for
//! it together.

mod auth;
mod buffer;
mod commands;
mod connection;
mod flight;
mod handshake;
mod limits;
mod line;
mod memo;
mod native;
mod parser;
mod question;
mod reply;
mod session;
mod shape;
mod throttle;
mod trace;
mod transaction;

pub use auth::Auth;
pub use limits::Limits;
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
