//! HTTP and JSON: questions in, answers out, and the check that proxies ask.
//!
//! ```text
//! request ──▶ route ──▶ question (query or JSON) ──▶ Service ──▶ reply (JSON, headers)
//! ```

mod ask;
mod body;
mod check;
mod connection;
mod help;
mod json;
mod problem;
pub(crate) mod query;
mod question;
mod reply;
mod route;

pub(crate) use connection::talk;
pub(crate) use json::{answer as answer_json, quoted};
pub(crate) use problem::Problem;
pub(crate) use reply::{Reply, bytes, of_json};

use std::sync::Arc;

use tollgate::{Clock as _, SystemClock};

use crate::net::{Draining, Port};
use crate::observe::Protocol;
use crate::service::Service;

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, draining: Draining) {
    let clock = SystemClock::new();
    port.serve(draining, move |stream, _peer, draining| {
        let service = Arc::clone(&service);
        async move {
            let answer = |request| {
                let service = Arc::clone(&service);
                async move {
                    let begin = clock.now();
                    let response = route::answer(&service, request).await;
                    let stats = service.observer().port(Protocol::Http);
                    stats.spans.saw(clock.now().since(begin));
                    if response.status() == http::StatusCode::BAD_REQUEST {
                        stats.wrong();
                    }
                    response
                }
            };
            talk(stream, draining, answer).await;
        }
    })
    .await;
}
