//! The state of reloading.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::config::Problems;
use crate::seconds::unix_now;

/// The results of reloads since the server started, for metrics and for people.
#[derive(Debug)]
pub struct Reloads {
    status: Mutex<ReloadStatus>,
}

/// A snapshot. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReloadStatus {
    /// The number of times that new rules were put in force.
    pub succeeded: u64,
    /// The number of times that new rules were rejected.
    pub failed: u64,
    /// When rules were last put in force; the start of the server counts.
    pub last_success: u64,
    /// When rules were last rejected.
    pub last_failure: Option<u64>,
    /// The error, if the newest configuration is not in force.
    pub error: Option<String>,
    /// The parts of the error, each with its file, line and column.
    pub problems: Problems,
    /// Settings of the newest configuration that need a restart.
    pub needs_restart: Vec<&'static str>,
    /// The files and directories of the configuration in force.
    pub files: Vec<String>,
}

impl ReloadStatus {
    /// Whether all of the newest configuration is in force.
    #[must_use]
    pub fn in_force(&self) -> bool {
        self.error.is_none() && self.needs_restart.is_empty()
    }
}

impl Default for Reloads {
    fn default() -> Self {
        let status = ReloadStatus { last_success: unix_now(), ..ReloadStatus::default() };
        Reloads { status: Mutex::new(status) }
    }
}

impl Reloads {
    /// A snapshot.
    #[must_use]
    pub fn status(&self) -> ReloadStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn succeeded(&self, needs_restart: Vec<&'static str>) {
        let now = unix_now();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.succeeded += 1;
        status.last_success = now;
        (status.error, status.needs_restart) = (None, needs_restart);
        status.problems = Problems::default();
    }

    /// Sets the files of the configuration in force.
    pub(crate) fn set_files(&self, files: &[PathBuf]) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.files = files.iter().map(|path| path.display().to_string()).collect();
    }

    pub(crate) fn failed(&self, problems: Problems) {
        let now = unix_now();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.failed += 1;
        status.last_failure = Some(now);
        status.error = Some(problems.to_string());
        status.problems = problems;
    }
}
