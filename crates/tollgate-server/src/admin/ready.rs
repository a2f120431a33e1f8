//! Whether requests should be sent to this server.

use http::{Response, StatusCode};
use serde_json::json;
use tollgate::shared::{AnyStore, SharedStore as _};
use tollgate::{Error, ErrorKind};

use crate::http::{Reply, of_json};
use crate::net::Draining;
use crate::service::{RequestError, Service};

/// How often a store may be late before it counts as not ready: one late answer is no outage.
const ATTEMPTS: usize = 3;

/// Anybody may request this, so the error text of the store is only logged.
pub(super) async fn answer(service: &Service, draining: &Draining) -> Response<Reply> {
    let reason = if draining.is_ready() {
        decides(service.store()).await.err().map(|error| RequestError::from(error).to_string())
    } else {
        Some("told to stop".to_owned())
    };
    match reason {
        None => of_json(StatusCode::OK, with_warnings(service, json!({"ready": true}))),
        Some(reason) => {
            let body = json!({"ready": false, "reason": reason});
            of_json(StatusCode::SERVICE_UNAVAILABLE, with_warnings(service, body))
        }
    }
}

/// Adds what the store warns of: a lost bus, missing nodes of its fleet.
fn with_warnings(service: &Service, mut body: serde_json::Value) -> String {
    let warnings = service.store().report().warnings;
    if !warnings.is_empty() {
        body["warnings"] = json!(warnings);
    }
    body.to_string()
}

/// Whether the store can charge a key within the deadline of a hit.
async fn decides(store: &AnyStore) -> Result<(), Error> {
    let deadline = store.guard().deadline();
    let mut late = None;
    for _ in 0..ATTEMPTS {
        let error = match tokio::time::timeout(deadline, store.check()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.kind() != ErrorKind::Lost => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => Error::lost(format!("none within the deadline of {deadline:?}")),
        };
        late = Some(error);
    }
    late.map_or(Ok(()), Err)
}
