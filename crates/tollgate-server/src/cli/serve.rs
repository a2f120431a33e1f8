//! `tollgate serve`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tollgate_stores::Opening;

use crate::net::{Drain, Port};
use crate::rules::RuleSet;
use crate::service::{Defaults, Service};
use crate::settings::{Settings, StoreSettings};
use crate::{admin, grpc, http, resp};

#[derive(Args, Debug, Default)]
pub(super) struct Serve {}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(serve(Settings::default(), RuleSet::default()))?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn serve(settings: Settings, rules: RuleSet) -> Result<(), Box<dyn Error>> {
    let store = opening(&settings.store).open().await?;
    let defaults = Defaults { on_failure: settings.store.on_failure, ..Defaults::default() };
    let service = Arc::new(Service::new(store, defaults, &rules)?);
    let (drain, draining) = Drain::new();
    let mut ports = JoinSet::new();
    let grace = settings.grace;
    if let Some(address) = settings.http {
        let port = Port::bind("http", address, grace).await?;
        ports.spawn(http::serve(port, Arc::clone(&service), draining.clone()));
    }
    if let Some(address) = settings.grpc {
        let port = Port::bind("grpc", address, grace).await?;
        ports.spawn(grpc::serve(
            port,
            Arc::clone(&service),
            grpc::Options::default(),
            draining.clone(),
        ));
    }
    if let Some(address) = settings.resp {
        let port = Port::bind("resp", address, grace).await?;
        ports.spawn(resp::serve(port, Arc::clone(&service), draining.clone()));
    }
    if let Some(address) = settings.admin {
        let port = Port::bind("admin", address, grace).await?;
        ports.spawn(admin::serve(port, Arc::clone(&service), draining.clone()));
    }
    told_to_stop().await?;
    drain.begin();
    while ports.join_next().await.is_some() {}
    Ok(())
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
