//! `tollgate serve`.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tollgate_stores::Opening;

use super::greeting::Greeting;
use crate::config::{self, Config};
use crate::net::{Drain, Port};
use crate::service::{Defaults, Service};
use crate::settings::{Address, Settings, StoreSettings};
use crate::{admin, grpc, http, resp};

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// The configuration file, TOML or YAML; flags and the environment go over what it says
    #[arg(long, short, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    over: Over,
}

/// What the command line and the environment say instead of the file.
#[derive(Args, Clone, Debug)]
struct Over {
    /// Where HTTP/JSON and the checks for proxies are answered [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_HTTP")]
    http: Option<Address>,

    /// Where Envoy's rate limit service is [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_GRPC")]
    grpc: Option<Address>,

    /// Where Redis' protocol is spoken [default: 127.0.0.1:6380]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_RESP")]
    resp: Option<Address>,

    /// Where metrics, health and the busiest keys are [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDR|off", env = "TOLLGATE_ADMIN")]
    admin: Option<Address>,

    /// Where the counts are: memory: in this process, redis://host:port/0 for many machines [default: memory:]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    store: Option<String>,
}

impl Over {
    fn put(&self, settings: &mut Settings) {
        let Over { http, grpc, resp, admin, store } = self;
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
    }
}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let mut config = match &self.config {
            Some(path) => config::load(path)?,
            None => Config::default(),
        };
        self.over.put(&mut config.settings);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(serve(&config, self.config.as_ref()))?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn serve(config: &Config, path: Option<&PathBuf>) -> Result<(), Box<dyn Error>> {
    let Config { settings, rules } = config;
    let store = opening(&settings.store).open().await?;
    let defaults = Defaults { on_failure: settings.store.on_failure, ..Defaults::default() };
    let service = Arc::new(Service::new(store, defaults, rules)?);
    let (drain, draining) = Drain::new();
    let mut ports = JoinSet::new();
    let mut places = Vec::new();
    if let Some(port) = bound("http", settings.http, settings, &mut places).await? {
        ports.spawn(http::serve(port, Arc::clone(&service), draining.clone()));
    }
    if let Some(port) = bound("grpc", settings.grpc, settings, &mut places).await? {
        let options = settings.envoy.clone();
        ports.spawn(grpc::serve(port, Arc::clone(&service), options, draining.clone()));
    }
    if let Some(port) = bound("resp", settings.resp, settings, &mut places).await? {
        ports.spawn(resp::serve(port, Arc::clone(&service), draining.clone()));
    }
    if let Some(port) = bound("admin", settings.admin, settings, &mut places).await? {
        ports.spawn(admin::serve(port, Arc::clone(&service), draining.clone()));
    }
    if places.is_empty() {
        return Err("every port is off: nobody could ask anything".into());
    }
    print!("{}", Greeting { ports: &places, store: &settings.store.url, rules, config: path });
    told_to_stop().await?;
    drain.begin();
    while ports.join_next().await.is_some() {}
    Ok(())
}

/// Listens, if it is to, and notes where.
async fn bound(
    name: &'static str,
    address: Option<SocketAddr>,
    settings: &Settings,
    places: &mut Vec<(&'static str, SocketAddr)>,
) -> Result<Option<Port>, Box<dyn Error>> {
    let Some(address) = address else { return Ok(None) };
    let port = Port::bind(name, address, settings.grace).await.map_err(|error| {
        format!("{name}: cannot listen on {address}: {error}; --{name} moves it, --{name} off turns it off")
    })?;
    places.push((name, port.address()?));
    Ok(Some(port))
}

async fn told_to_stop() -> std::io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

fn opening(settings: &StoreSettings) -> Opening {
    let mut opening = Opening::new(&settings.url[..]).lazily();
    if let Some(prefix) = &settings.prefix {
        opening = opening.prefix(&prefix[..]);
    }
    if let Some(deadline) = settings.deadline {
        opening = opening.deadline(deadline);
    }
    if let Some(denials) = settings.remember_denials {
        opening = opening.remember_denials(denials);
    }
    if let Some(longest) = settings.denials_for {
        opening = opening.denials_for(longest);
    }
    if let Some(keys) = settings.max_keys {
        opening = opening.max_keys(keys);
    }
    opening
}
