//! How many connections, and for how long.

use std::time::Duration;

use serde::Deserialize;

use super::span;
use crate::net::Most;

/// Bounds on connections.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSettings {
    /// The most on HTTP, gRPC and RESP together.
    pub max: usize,
    /// The most on each of them.
    pub max_per_port: Option<usize>,
    /// The most from one address.
    pub max_per_peer: Option<usize>,
    /// The most on the admin port, which has room of its own: health is seen when the rest is full.
    pub max_admin: usize,
    /// A connection on which nothing arrives for so long is ended.
    #[serde(with = "span::optional")]
    pub idle_timeout: Option<Duration>,
    /// How long a client may take for its part of the greeting of TLS.
    #[serde(with = "span")]
    pub handshake_timeout: Duration,
    /// How long a request may take to arrive, from its first byte or the end of the one before.
    #[serde(with = "span")]
    pub request_timeout: Duration,
    /// How long connections may go on when the server is told to stop.
    #[serde(with = "span")]
    pub grace: Duration,
    /// How long the server says that it is not ready before it stops, so that load balancers
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
    /// For the ports that answer questions.
    #[must_use]
    pub fn most(&self) -> Most {
        Most { all: self.max, port: self.max_per_port, peer: self.max_per_peer }
    }

    /// For the admin port.
    #[must_use]
    pub fn most_admin(&self) -> Most {
        Most { all: self.max_admin, port: None, peer: None }
    }
}
