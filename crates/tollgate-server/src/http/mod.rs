//! HTTP and JSON.

use std::sync::Arc;

use crate::net::{Draining, Port};
use crate::service::Service;

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, draining: Draining) {
    port.serve(draining, move |stream, _peer, _draining| {
        let service = Arc::clone(&service);
        async move {
            let _ = (stream, service);
        }
    })
    .await;
}
