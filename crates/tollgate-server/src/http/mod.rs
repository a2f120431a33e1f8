//! HTTP and JSON: operations on keys, and the check that proxies make.
//!
//! ```text
//! request ──▶ route ──▶ key request (query or JSON) ──▶ Service ──▶ reply (JSON, headers)
//! ```

mod body;
mod browser;
mod check;
mod connection;
mod front;
mod help;
mod json;
mod key_request;
mod operations;
mod problem;
pub(crate) mod query;
mod reply;
mod route;

pub(crate) use body::read as read_body;
pub(crate) use browser::Browsers;
pub(crate) use connection::Talk;
pub(crate) use front::unauthorized;
pub(crate) use json::{outcomes as outcomes_json, receipts as receipts_json};
pub(crate) use key_request::KeyText;
pub(crate) use problem::Problem;
pub(crate) use reply::{Reply, bytes, of_json};

use std::sync::Arc;

use crate::net::{Draining, Port};
use crate::observe::Protocol;
use crate::service::Service;

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, draining: Draining) {
    let talk = Arc::new(Talk::new(port.patience(), Arc::clone(&service), Protocol::Http));
    let front = Arc::new(front::Front::new(&port, service));
    port.serve(draining, move |stream, _peer, draining| {
        let (front, talk) = (Arc::clone(&front), Arc::clone(&talk));
        async move { talk.on(stream, draining, |request| Arc::clone(&front).answer(request)).await }
    })
    .await;
}
