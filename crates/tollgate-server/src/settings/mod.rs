//! The settings of the server, from the file, the environment and the command line.

mod address;
mod auth;
mod connections;
mod log;
pub mod span;
mod threads;
mod tls;

pub use address::Address;
pub use auth::AuthSettings;
pub use connections::ConnectionSettings;
pub use log::{LogFormat, LogLevel, LogSettings, TraceSettings};
pub use threads::Threads;
pub use tls::{PortTlsSettings, TlsSettings};

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tollgate::shared::OnFailure;

use crate::grpc;
use crate::observe::Protocol;

/// Everything that is not a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The address of the HTTP port; `None` if it is off.
    pub http: Option<SocketAddr>,
    /// The address of Envoy's rate limit service; `None` if it is off.
    pub grpc: Option<SocketAddr>,
    /// The address of the RESP port; `None` if it is off.
    pub resp: Option<SocketAddr>,
    /// The address of the admin port; `None` if it is off.
    pub admin: Option<SocketAddr>,
    /// The number of worker threads.
    pub threads: Threads,
    /// Options of the gRPC port.
    pub envoy: grpc::Options,
    /// The store.
    pub store: StoreSettings,
    /// Certificates.
    pub tls: TlsSettings,
    /// The tokens of the ports.
    pub auth: AuthSettings,
    /// Bounds on connections.
    pub connections: ConnectionSettings,
    /// The log.
    pub log: LogSettings,
    /// Traces.
    pub traces: TraceSettings,
}

/// The store, and the answers while it is not available.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSettings {
    /// The URL: see `tollgate-stores`.
    pub url: String,
    /// The prefix of all keys, for a store that other programs use too.
    pub prefix: Option<String>,
    /// The deadline of a call.
    pub deadline: Option<Duration>,
    /// The number of failures in a row that opens the breaker.
    pub breaker_failures: Option<u32>,
    /// How long the breaker first stays open.
    pub breaker_pause: Option<Duration>,
    /// How long the breaker stays open at most.
    pub breaker_longest_pause: Option<Duration>,
    /// The most denials that are remembered.
    pub remember_denials: Option<usize>,
    /// How long a denial is remembered at most.
    pub denials_for: Option<Duration>,
    /// Whether units that were admitted while the store was away are charged to it later.
    pub charge_local: Option<bool>,
    /// The most keys of an in-process store.
    pub max_keys: Option<usize>,
    /// The most limits of an in-process store.
    pub max_limits: Option<usize>,
    /// The answer without the store, for rules that have no answer of their own.
    pub on_failure: OnFailure,
}

impl Default for Settings {
    fn default() -> Self {
        let local = |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Settings {
            http: local(8080),
            grpc: local(8081),
            resp: local(6380),
            admin: local(8082),
            threads: Threads::default(),
            envoy: grpc::Options::default(),
            store: StoreSettings::default(),
            tls: TlsSettings::default(),
            auth: AuthSettings::default(),
            connections: ConnectionSettings::default(),
            log: LogSettings::default(),
            traces: TraceSettings::default(),
        }
    }
}

impl Settings {
    /// The address of a port; `None` if it is off.
    #[must_use]
    pub fn address(&self, protocol: Protocol) -> Option<SocketAddr> {
        match protocol {
            Protocol::Http => self.http,
            Protocol::Grpc => self.grpc,
            Protocol::Resp => self.resp,
            Protocol::Admin => self.admin,
        }
    }
}

impl Settings {
    /// Names the settings that differ and need a restart.
    #[must_use]
    pub fn fixed_differences(&self, other: &Settings) -> Vec<&'static str> {
        // `on_failure` belongs to the rules, which are replaced without a restart.
        let store = |settings: &Settings| StoreSettings {
            on_failure: OnFailure::default(),
            ..settings.store.clone()
        };
        let differs = [
            ("server.http", self.http != other.http),
            ("server.grpc", self.grpc != other.grpc),
            ("server.resp", self.resp != other.resp),
            ("server.admin", self.admin != other.admin),
            ("server.threads", self.threads != other.threads),
            ("envoy", self.envoy != other.envoy),
            ("store", store(self) != store(other)),
            ("tls", self.tls != other.tls),
            ("auth.allow_anonymous", self.auth.allow_anonymous != other.auth.allow_anonymous),
            ("connections", self.connections != other.connections),
            ("log", self.log != other.log),
            ("traces", self.traces != other.traces),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings {
            url: "memory:".to_owned(),
            prefix: None,
            deadline: None,
            breaker_failures: None,
            breaker_pause: None,
            breaker_longest_pause: None,
            remember_denials: None,
            denials_for: None,
            charge_local: None,
            max_keys: None,
            max_limits: None,
            on_failure: OnFailure::Error,
        }
    }
}
