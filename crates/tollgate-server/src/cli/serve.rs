//! `tollgate serve`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tollgate::shared::{Guard, SharedStore as _, without_secrets};
use tollgate_stores::Opening;

use super::certificates::look_after;
use super::files;
use super::greeting::Greeting;
use super::node;
use super::output::say;
use super::ports::Ports;
use super::stop::Stop;
use super::supervisor;
use crate::auth::Hash;
use crate::config::{Config, Files};
use crate::net::Drain;
use crate::observe::Protocol;
use crate::reload::Reloader;
use crate::seconds::unix_now;
use crate::service::{Defaults, Service};
use crate::settings::{
    Address, AuthSettings, LogFormat, LogLevel, Settings, StoreSettings, Threads,
};
use crate::telemetry::{self, Tracer};
use crate::{admin, grpc, http, resp};

/// How long the store may take to give back what this process holds when the server stops.
pub(super) const LEAVE: Duration = Duration::from_secs(2);

/// How long the store may take for its first answer, which includes connecting.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// The configuration file, TOML or YAML; flags and the environment override it
    #[arg(long, short, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    over: Over,
}

/// Options for reading rule files.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Let several files define the same domain; in a file: merge_domains = true
    #[arg(long, env = "TOLLGATE_MERGE_DOMAINS", value_parser = FalseyValueParser::new())]
    merge_domains: bool,
}

impl Reading {
    pub(super) fn files(self, path: &Path) -> Files {
        Files { merge_domains: self.merge_domains, ..Files::at(path) }
    }
}

/// Settings that the command line and the environment override.
#[derive(Args, Clone, Debug)]
struct Over {
    /// Address of the HTTP port, with the checks for proxies [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_HTTP")]
    http: Option<Address>,

    /// Address of Envoy's rate limit service [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_GRPC")]
    grpc: Option<Address>,

    /// Address of the port for Redis' protocol [default: 127.0.0.1:6380]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_RESP")]
    resp: Option<Address>,

    /// Address of the admin port: metrics, health, busiest keys [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_ADMIN")]
    admin: Option<Address>,

    /// The store: memory: is in this process, redis://host:port/0 is shared by many machines,
    /// leased+redis:// is for hot keys on them [default: memory:]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    store: Option<String>,

    /// The number of worker threads [default: one less than the number of cores]
    #[arg(long, value_name = "N", env = "TOLLGATE_THREADS")]
    threads: Option<Threads>,

    /// The certificate chain of all ports, PEM; read again when it changes
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,

    /// The private key of the certificate, PEM
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY")]
    tls_key: Option<PathBuf>,

    /// CA certificates of clients, PEM: a client must present a certificate signed by one of them
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,

    /// Admit only clients that show the token of this hash; `tollgate token` makes both
    #[arg(long, value_name = "HASH", env = "TOLLGATE_TOKEN_HASH", hide_env_values = true)]
    token_hash: Option<String>,

    /// Admit only clients with the token of this hash to the admin port
    #[arg(long, value_name = "HASH", env = "TOLLGATE_ADMIN_TOKEN_HASH", hide_env_values = true)]
    admin_token_hash: Option<String>,

    /// Let ports that other machines can reach admit clients without a token
    #[arg(long, env = "TOLLGATE_ALLOW_ANONYMOUS", value_parser = FalseyValueParser::new())]
    allow_anonymous: bool,

    /// The log level: error, warn, info, debug, trace or off [default: info]
    #[arg(long, value_name = "LEVEL", env = "TOLLGATE_LOG")]
    log_level: Option<LogLevel>,

    /// The format of log lines [default: text]
    #[arg(long, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT")]
    log_format: Option<LogFormat>,

    /// The collector of traces, OTLP over HTTP: http://127.0.0.1:4318
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    traces: Option<String>,
}

impl Over {
    fn put(&self, settings: &mut Settings) -> Result<(), String> {
        let Over { http, grpc, resp, admin, store, .. } = self;
        for (place, address) in [
            (&mut settings.http, http),
            (&mut settings.grpc, grpc),
            (&mut settings.resp, resp),
            (&mut settings.admin, admin),
        ] {
            if let Some(address) = address {
                *place = address.socket();
            }
        }
        if let Some(store) = store {
            settings.store.url.clone_from(store);
        }
        self.put_tokens(&mut settings.auth)?;
        if let Some(threads) = self.threads {
            settings.threads = threads;
        }
        self.put_operating(settings);
        Ok(())
    }

    /// Parses the hashes here and not in the argument parser. That would print a text that is not a
    /// hash, and the text may be the token itself.
    fn put_tokens(&self, auth: &mut AuthSettings) -> Result<(), String> {
        for (flag, hash, tokens) in [
            ("--token-hash", &self.token_hash, &mut auth.tokens),
            ("--admin-token-hash", &self.admin_token_hash, &mut auth.admin_tokens),
        ] {
            if let Some(hash) = hash {
                let hash: Hash = hash.parse().map_err(|error| format!("{flag}: {error}"))?;
                tokens.extend([("of the command line".to_owned(), hash)]);
            }
        }
        auth.allow_anonymous |= self.allow_anonymous;
        Ok(())
    }

    fn put_operating(&self, settings: &mut Settings) {
        let Settings { tls, log, traces, .. } = settings;
        for (place, file) in [
            (&mut tls.certificate, &self.tls_certificate),
            (&mut tls.key, &self.tls_key),
            (&mut tls.client_ca, &self.tls_client_ca),
        ] {
            if file.is_some() {
                place.clone_from(file);
            }
        }
        if let Some(level) = &self.log_level {
            log.level.clone_from(level);
        }
        if let Some(format) = self.log_format {
            log.format = format;
        }
        if self.traces.is_some() {
            traces.endpoint.clone_from(&self.traces);
        }
    }
}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let files = self.config.as_deref().map(|path| self.reading.files(path));
        let mut config = match &files {
            Some(files) => files.load()?,
            None => Config::default(),
        };
        self.over.put(&mut config.settings)?;
        telemetry::start_log(&config.settings.log);
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let threads = config.settings.threads.count();
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let tracer = Tracer::start(&config.settings.traces, Handle::clone(runtime.handle()))?;
        runtime.block_on(self.serve(files, config, tracer.clone()))?;
        if let Some(tracer) = tracer {
            tracer.finish();
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(
        self,
        files: Option<Files>,
        config: Config,
        tracer: Option<Tracer>,
    ) -> Result<(), Box<dyn Error>> {
        let Config { settings, rules, .. } = &config;
        let connections = files::bounded(&settings.connections);
        let mut opening = opening(&settings.store);
        let node = node::name(settings);
        if let Some(name) = &node {
            opening = opening.node(name.clone());
        }
        let store = opening.open().await?;
        let service = Arc::new(Service::new(store, Defaults::from(&settings.store), rules)?);
        let (drain, draining) = Drain::new();
        // Before a port is open, because a client that sees the port may send a signal.
        let (stop, hangup) = (Stop::new()?, signal(SignalKind::hangup())?);
        let mut tasks = JoinSet::new();
        let mut ports = Ports::new(settings, &connections, &service, tracer);
        if let Some(port) = ports.open(Protocol::Http).await? {
            tasks.spawn(http::serve(port, Arc::clone(&service), draining.clone()));
        }
        if let Some(port) = ports.open(Protocol::Grpc).await? {
            let mut options = settings.envoy.clone();
            options.patience = options.patience.min(port.patience());
            tasks.spawn(grpc::serve(port, Arc::clone(&service), options, draining.clone()));
        }
        if let Some(port) = ports.open(Protocol::Resp).await? {
            tasks.spawn(resp::serve(port, Arc::clone(&service), draining.clone()));
        }
        if let Some(port) = ports.open(Protocol::Admin).await? {
            let store = without_secrets(&settings.store.url);
            let about = admin::About { store, node, started: unix_now() };
            tasks.spawn(admin::serve(port, Arc::clone(&service), about, draining.clone()));
        }
        let Ports { places, certificates, gates, .. } = ports;
        if places.is_empty() {
            return Err("every port is off: there is nothing to serve".into());
        }
        tokio::spawn(look_after(certificates, Arc::clone(&service)));
        let path = files.as_ref().map(|files| &files.path);
        let store = &settings.store.url[..];
        let answers = first_answer(&service, store).await;
        say(&Greeting { ports: &places, store, answers, rules, config: path }.to_string())?;
        let delay = settings.connections.drain_delay;
        if let Some(files) = files {
            let over = self.over;
            let reloader =
                Reloader::new(files, config, &service, move |settings| over.put(settings))
                    .with_gates(gates);
            tokio::spawn(reloader.run(hangup));
        }
        supervisor::tell(supervisor::READY);
        stop.drain(&drain, delay).await;
        while tasks.join_next().await.is_some() {}
        // There are no more callers, so other nodes get what this process still holds.
        let left = tokio::time::timeout(LEAVE, service.store().leave()).await;
        if left.is_err() {
            tracing::warn!("the store did not take back unused units within {LEAVE:?}");
        }
        Ok(())
    }
}

/// Asks the store for the first time and logs the result. If the store does not answer, a task asks
/// on and logs when it does. The server starts without the store, because `on_failure` says what to
/// answer then.
async fn first_answer(service: &Arc<Service>, url: &str) -> bool {
    let url = without_secrets(url);
    let asked = tokio::time::timeout(FIRST_ANSWER, service.store().check()).await;
    let error = match asked {
        Ok(Ok(())) => {
            tracing::info!(store = url, "the store answers");
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {FIRST_ANSWER:?}"),
    };
    tracing::warn!(store = url, error, "the store does not answer: hits get what on_failure says");
    let service = Arc::clone(service);
    tokio::spawn(async move {
        while !matches!(
            tokio::time::timeout(FIRST_ANSWER, service.store().check()).await,
            Ok(Ok(()))
        ) {
            tokio::time::sleep(FIRST_ANSWER).await;
        }
        tracing::info!(store = url, "the store answers");
    });
    false
}

pub(super) fn opening(settings: &StoreSettings) -> Opening {
    let mut opening = Opening::new(&settings.url[..]).lazily();
    if let Some(prefix) = &settings.prefix {
        opening = opening.prefix(&prefix[..]);
    }
    if let Some(deadline) = settings.deadline {
        opening = opening.deadline(deadline);
    }
    if let Some(failures) = settings.breaker_failures {
        opening = opening.open_after(failures);
    }
    let (pause, longest) = Guard::DEFAULT_PAUSES;
    opening = opening.pause(
        settings.breaker_pause.unwrap_or(pause),
        settings.breaker_longest_pause.unwrap_or(longest),
    );
    if let Some(denials) = settings.remember_denials {
        opening = opening.remember_denials(denials);
    }
    if let Some(longest) = settings.denials_for {
        opening = opening.denials_for(longest);
    }
    if let Some(charge) = settings.charge_local {
        opening = opening.charge_local(charge);
    }
    if let Some(keys) = settings.max_keys {
        opening = opening.max_keys(keys);
    }
    if let Some(limits) = settings.max_limits {
        opening = opening.max_limits(limits);
    }
    opening
}
