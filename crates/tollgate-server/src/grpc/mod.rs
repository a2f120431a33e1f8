//! Envoy's rate limit service, health and reflection.

pub(crate) mod call;
mod calls;
mod connection;
mod handler;
mod health;
mod options;
pub mod proto;
mod rls;

pub use options::Options;

use std::sync::Arc;

use crate::net::{Draining, Port};
use crate::service::Service;

/// The service that Envoy calls.
pub const RATE_LIMIT_SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The path of the call that Envoy makes.
pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The descriptors that reflection serves; see `proto/README.md`.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../proto/rls.bin");

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, options: Options, draining: Draining) {
    let handler = handler::Handler::new(&port, service, options, draining.clone());
    let handler = Arc::new(handler);
    port.serve(draining, move |stream, _peer, draining| {
        connection::serve(stream, Arc::clone(&handler), draining)
    })
    .await;
}
