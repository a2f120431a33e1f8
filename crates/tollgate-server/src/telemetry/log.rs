//! The log, to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, LogSettings};

/// Begins to write the log.
///
/// # Errors
/// When the level is none.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let LogSettings { level, format } = settings;
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("log level {level:?}: {error}; expected error, warn, info, debug, trace or off, or parts like info,tollgate_server::net=debug")
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Somebody else writes one already: in tests, then that one is as good.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    Ok(())
}
