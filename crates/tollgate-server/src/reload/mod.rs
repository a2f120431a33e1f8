//! Replaces the rules of a running server when a file changes or on `SIGHUP`.
//!
//! A new configuration is read and prepared on the store as a whole before it replaces the old one.
//! So each request is decided by one or the other, and a broken file changes nothing.

mod status;
mod watch;

pub use status::{ReloadStatus, Reloads};

use std::fmt;
use std::sync::Arc;

use tokio::signal::unix::Signal;

use crate::auth::Gates;
use crate::config::{Config, Files, Problem, Problems};
use crate::service::{Defaults, Service};
use crate::settings::{AuthSettings, Settings};
use watch::Watch;

/// Applies the command line to the settings of a file.
type Over = dyn Fn(&mut Settings) -> Result<(), String> + Send + Sync;

/// Replaces the configuration of a running server.
pub struct Reloader {
    files: Files,
    over: Box<Over>,
    service: Arc<Service>,
    gates: Option<Gates>,
    /// The settings at the start: ports and stores stay as they were.
    running: Settings,
    /// The configuration in force.
    config: Config,
    /// The last error, so that it is logged once.
    error: Option<String>,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("path", &self.files.path).finish_non_exhaustive()
    }
}

/// The result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The configuration has not changed.
    Same,
    /// The new rules are in force.
    Replaced,
    /// The new configuration is not valid. The old one stays in force.
    Refused,
}

impl Reloader {
    /// Prepares reloads for a server that was started with this configuration. `over` applies the
    /// command line to the settings of a file.
    pub fn new(
        files: Files,
        config: Config,
        service: &Arc<Service>,
        over: impl Fn(&mut Settings) -> Result<(), String> + Send + Sync + 'static,
    ) -> Reloader {
        let running = config.settings.clone();
        service.reloads().set_files(&config.sources);
        let (service, over) = (Arc::clone(service), Box::new(over));
        Reloader { files, over, service, gates: None, running, config, error: None }
    }

    /// Replaces tokens along with the rules.
    #[must_use]
    pub fn with_gates(mut self, gates: Gates) -> Reloader {
        self.gates = Some(gates);
        self
    }

    /// Reads the files again and puts their rules in force, unless something is wrong with them.
    /// The result is in [`Service::reloads`] and in the log.
    pub fn reload(&mut self) -> Outcome {
        match self.read() {
            Ok(config) if config == self.config && self.error.is_none() => Outcome::Same,
            Ok(config) => self.replace(config),
            Err(problems) => self.refuse(problems),
        }
    }

    fn read(&self) -> Result<Config, Problems> {
        // A program that writes a file in place empties it first. An empty file is not meant as a
        // configuration.
        let empty =
            std::fs::metadata(&self.files.path).is_ok_and(|file| file.is_file() && file.len() == 0);
        if empty && !self.config.rules.is_empty() {
            let file = self.files.path.display().to_string();
            return Err(Problem::of_file(&file, "the file is empty").into());
        }
        let mut config = self.files.load()?;
        (self.over)(&mut config.settings).map_err(|error| Problem::of_file("", error))?;
        Ok(config)
    }

    fn replace(&mut self, config: Config) -> Outcome {
        let defaults = Defaults::from(&config.settings.store);
        if let Err(problems) = self.service.replace(defaults, &config.rules) {
            return self.refuse(problems);
        }
        let mut restart = self.running.fixed_differences(&config.settings);
        if let Some(gates) = &self.gates {
            let AuthSettings { tokens, admin_tokens, .. } = config.settings.auth.clone();
            gates.replace(tokens, admin_tokens);
            for setting in gates.shut() {
                tracing::error!(
                    setting,
                    "the last token was removed: nobody is admitted; a restart opens the port to everybody, if its address allows that"
                );
                restart.push(setting);
            }
        }
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        if !restart.is_empty() {
            let settings = restart.join(", ");
            tracing::warn!(settings, "these settings take effect when the server is restarted");
        }
        tracing::info!(rules = config.rules.len(), "new rules are in force");
        self.service.reloads().succeeded(restart);
        self.service.reloads().set_files(&config.sources);
        (self.config, self.error) = (config, None);
        Outcome::Replaced
    }

    fn refuse(&mut self, problems: Problems) -> Outcome {
        let error = problems.to_string();
        if self.error.as_ref() != Some(&error) {
            for line in error.lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the configuration is not valid: the old rules stay in force");
            self.service.reloads().failed(problems);
            self.error = Some(error);
        }
        Outcome::Refused
    }

    /// Reloads whenever a file changes and on every signal. The caller listens for the signal
    /// before it opens a port. Never returns.
    pub async fn run(mut self, mut told: Signal) {
        let mut watch = Watch::new();
        loop {
            while watch.look_at(&self.config.sources) {
                tokio::task::block_in_place(|| self.reload());
            }
            tokio::select! {
                _ = told.recv() => tracing::info!("SIGHUP: the configuration is read again"),
                () = watch.changed() => {}
            }
            // Reading files and preparing rules takes time. Other threads answer meanwhile.
            tokio::task::block_in_place(|| self.reload());
        }
    }
}
