//! The log, to standard error.

use std::io::IsTerminal;

use super::Seldom;
use crate::observe::RuleStats;
use crate::service::Verdict;
use crate::settings::{LogFormat, LogSettings};

/// Begins to write the log.
pub fn start(settings: &LogSettings) {
    let LogSettings { level, format } = settings;
    let log = tracing_subscriber::fmt()
        .with_env_filter(level.filter())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Somebody else writes one already: in tests, then that one is as good.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Somebody was denied: by which rule, not who. One line a second at most.
pub(crate) fn denied(rule: &RuleStats, verdict: Verdict) {
    static SELDOM: Seldom = Seldom::new();
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    if let Some(untold) = SELDOM.may() {
        let (namespace, domain, rule) = (rule.namespace(), rule.domain(), rule.name());
        tracing::debug!(namespace, domain, rule, verdict = verdict.name(), untold, "denied");
    }
}
