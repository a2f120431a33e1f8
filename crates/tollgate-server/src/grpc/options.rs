//! The settings of the gRPC port.

use std::time::Duration;

use tollgate_http::Headers;

/// The settings of the gRPC port.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Headers that the proxy adds to its answers.
    pub headers: Headers,
    /// Whether a denial has a body for programs, `application/problem+json`.
    pub problem: bool,
    /// Whether responses describe each decision in the dynamic metadata of the proxy.
    pub metadata: bool,
    /// The largest message, in bytes. A proxy that lets requests pass when it gets an error must
    /// not be able to send a larger one: values of descriptors are headers of its clients.
    pub max_message: usize,
    /// The most descriptors of a request.
    pub max_descriptors: usize,
    /// The most requests that a connection may have open.
    pub max_streams: u32,
    /// The largest headers of a request, in bytes. Envoy forwards trace headers of its clients.
    pub max_header: u32,
    /// How long a request may take to arrive, and a connection to send its preface.
    pub patience: Duration,
    /// How long a connection may be idle before it gets a ping.
    pub keepalive: Duration,
    /// The age at which a connection is closed gracefully, so that proxies spread over servers that
    /// started later.
    pub max_age: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            headers: Headers::default(),
            problem: false,
            metadata: false,
            max_message: 4 * 1024 * 1024,
            max_descriptors: 100,
            max_streams: 1_000,
            max_header: 128 * 1024,
            patience: Duration::from_secs(10),
            keepalive: Duration::from_secs(30),
            max_age: None,
        }
    }
}
