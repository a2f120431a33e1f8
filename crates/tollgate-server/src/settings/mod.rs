//! How the server is set up, whoever says so: the file, the environment or the command line.

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
    /// Where each protocol is spoken; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Envoy's rate limit service.
    pub grpc: Option<SocketAddr>,
    /// Redis' protocol.
    pub resp: Option<SocketAddr>,
    /// Metrics, health, busiest keys.
    pub admin: Option<SocketAddr>,
    /// How many threads answer.
    pub threads: Threads,
    /// How Envoy is answered.
    pub envoy: grpc::Options,
    /// Where the counts are.
    pub store: StoreSettings,
    /// Certificates.
    pub tls: TlsSettings,
    /// Who may ask.
    pub auth: AuthSettings,
    /// How many connections, and for how long.
    pub connections: ConnectionSettings,
    /// The log.
    pub log: LogSettings,
    /// Traces.
    pub traces: TraceSettings,
}

/// Where the counts are and what holds when they cannot be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSettings {
    /// See `tollgate-stores`.
    pub url: String,
    /// How keys begin, on a store that others use too.
    pub prefix: Option<String>,
    /// How long the store may take.
    pub deadline: Option<Duration>,
    /// How many failures in a row open the breaker.
    pub breaker_failures: Option<u32>,
    /// How long the breaker stays open before the store is asked again.
    pub breaker_pause: Option<Duration>,
    /// How long at most, when the store still does not answer.
    pub breaker_longest_pause: Option<Duration>,
    /// How many denials are remembered.
    pub remember_denials: Option<usize>,
    /// For how long at most.
    pub denials_for: Option<Duration>,
    /// Whether the store is charged, when it answers again, for what was admitted without it.
    pub charge_local: Option<bool>,
    /// How many keys a store in process holds.
    pub max_keys: Option<usize>,
    /// How many limits a store in process holds.
    pub max_limits: Option<usize>,
    /// What to answer when the store does not.
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
    /// Where a protocol is spoken; `None`: nowhere.
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
    /// What of other settings a running server cannot take on.
    #[must_use]
    pub fn fixed_differences(&self, other: &Settings) -> Vec<&'static str> {
        // What to answer when the store does not answer belongs to the rules.
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
