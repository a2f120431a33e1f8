//! The log on standard error.

use std::io::IsTerminal;

use super::Seldom;
use crate::observe::RuleStats;
use crate::service::Verdict;
use crate::settings::{LogFormat, LogSettings};

/// Starts the log.
pub fn start(settings: &LogSettings) {
    let LogSettings { level, format } = settings;
    let log = tracing_subscriber::fmt()
        .with_env_filter(level.filter())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // In tests another subscriber may already be set, which serves as well.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Logs a denial with its rule, never with the key. At most one line a second.
pub(crate) fn denied(rule: &RuleStats, verdict: Verdict) {
    static SELDOM: Seldom = Seldom::new();
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    if let Some(suppressed) = SELDOM.may() {
        let (namespace, domain, rule) = (rule.namespace(), rule.domain(), rule.name());
        tracing::debug!(namespace, domain, rule, verdict = verdict.name(), suppressed, "denied");
    }
}
