//! Bounds on connections and their timeouts.

use std::time::Duration;

use serde::Deserialize;

use super::span;
use crate::net::Most;

/// Bounds on connections.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSettings {
    /// The most connections on HTTP, gRPC and RESP together.
    pub max: usize,
    /// The most connections on each of these ports.
    pub max_per_port: Option<usize>,
    /// The most connections from one address.
    pub max_per_peer: Option<usize>,
    /// The most connections on the admin port. They are counted apart, so that health checks pass
    /// when the other ports are full.
    pub max_admin: usize,
    /// A connection is closed when nothing has arrived for this long.
    #[serde(with = "span::optional")]
    pub idle_timeout: Option<Duration>,
    /// The time a client has for the TLS handshake.
    #[serde(with = "span")]
    pub handshake_timeout: Duration,
    /// The time a request has to arrive, from its first byte or from the end of the previous
    /// request.
    #[serde(with = "span")]
    pub request_timeout: Duration,
    /// The time that open connections have to end after the server began to stop.
    #[serde(with = "span")]
    pub grace: Duration,
    /// How long the server reports that it is not ready before it stops, so that load balancers
    /// notice.
    #[serde(with = "span")]
    pub drain_delay: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        ConnectionSettings {
            max: 20_000,
            max_per_port: None,
            max_per_peer: None,
            max_admin: 200,
            idle_timeout: None,
            handshake_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
        }
    }
}

impl ConnectionSettings {
    /// The bounds of the HTTP, gRPC and RESP ports.
    #[must_use]
    pub fn most(&self) -> Most {
        Most { all: self.max, port: self.max_per_port, peer: self.max_per_peer }
    }

    /// The bounds of the admin port.
    #[must_use]
    pub fn most_admin(&self) -> Most {
        Most { all: self.max_admin, port: None, peer: None }
    }
}
