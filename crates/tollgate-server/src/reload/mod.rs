//! Rules that change while the server runs: when a file changes, or when somebody says so
//! (`SIGHUP`).
//!
//! A new configuration is read and put on the store as a whole before it takes the place of the old
//! one, so that a question meets one or the other and a broken file changes nothing.

mod status;
mod watch;

pub use status::{ReloadStatus, Reloads};

use std::fmt;
use std::sync::Arc;

use tokio::signal::unix::Signal;

use crate::auth::Gates;
use crate::config::{Config, Files};
use crate::service::{Defaults, Service};
use crate::settings::{AuthSettings, Settings};
use watch::Watch;

/// Puts what the command line says over what a file says.
type Over = dyn Fn(&mut Settings) -> Result<(), String> + Send + Sync;

/// Who looks after the configuration of a running server.
pub struct Reloader {
    files: Files,
    over: Box<Over>,
    service: Arc<Service>,
    gates: Option<Gates>,
    /// What the server was started with: ports and stores stay as they were.
    running: Settings,
    /// What is in force.
    config: Config,
    /// What was wrong the last time, so that it is said once.
    error: Option<String>,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("path", &self.files.path).finish_non_exhaustive()
    }
}

/// What became of a file that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It says what it said before.
    Same,
    /// Its rules are in force.
    Replaced,
    /// It makes no sense, and what was in force stays.
    Refused,
}

impl Reloader {
    /// For a server that was started with this configuration. `over` puts what the command line
    /// says over what a file says.
    pub fn new(
        files: Files,
        config: Config,
        service: &Arc<Service>,
        over: impl Fn(&mut Settings) -> Result<(), String> + Send + Sync + 'static,
    ) -> Reloader {
        let running = config.settings.clone();
        let (service, over) = (Arc::clone(service), Box::new(over));
        Reloader { files, over, service, gates: None, running, config, error: None }
    }

    /// Tokens are replaced along with the rules.
    #[must_use]
    pub fn with_gates(mut self, gates: Gates) -> Reloader {
        self.gates = Some(gates);
        self
    }

    /// Reads the files again and puts their rules in force, unless something is wrong with them.
    /// What came of it is in [`Service::reloads`] and in the log.
    pub fn reload(&mut self) -> Outcome {
        match self.read() {
            Ok(config) if config == self.config && self.error.is_none() => Outcome::Same,
            Ok(config) => self.replace(config),
            Err(error) => self.refuse(error),
        }
    }

    fn read(&self) -> Result<Config, String> {
        // Who writes a file in place empties it first: that is not meant.
        let empty =
            std::fs::metadata(&self.files.path).is_ok_and(|file| file.is_file() && file.len() == 0);
        if empty && !self.config.rules.is_empty() {
            return Err(format!("{}: the file is empty", self.files.path.display()));
        }
        let mut config = self.files.load().map_err(|problems| problems.to_string())?;
        (self.over)(&mut config.settings)?;
        Ok(config)
    }

    fn replace(&mut self, config: Config) -> Outcome {
        let defaults = Defaults::from(&config.settings.store);
        if let Err(problems) = self.service.replace(defaults, &config.rules) {
            return self.refuse(problems.to_string());
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
        (self.config, self.error) = (config, None);
        Outcome::Replaced
    }

    fn refuse(&mut self, error: String) -> Outcome {
        if self.error.as_ref() != Some(&error) {
            for line in error.lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the configuration makes no sense: the old rules stay");
            self.service.reloads().failed(&error);
            self.error = Some(error);
        }
        Outcome::Refused
    }

    /// Reloads whenever a file changes and whenever it is told to, by a signal that was listened
    /// for before any port was open. Never comes back.
    pub async fn run(mut self, mut told: Signal) {
        let mut watch = Watch::new();
        loop {
            while watch.look_at(&self.config.sources) {
                tokio::task::block_in_place(|| self.reload());
            }
            tokio::select! {
                _ = told.recv() => tracing::info!("told to read the configuration again"),
                () = watch.changed() => {}
            }
            // Files and many rules take their time; the other threads answer meanwhile.
            tokio::task::block_in_place(|| self.reload());
        }
    }
}
