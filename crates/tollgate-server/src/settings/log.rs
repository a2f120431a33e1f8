//! Settings of the log and of traces.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// Settings of the log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// The levels that are written.
    pub level: LogLevel,
    /// The format of a line.
    pub format: LogFormat,
}

/// A level (`off`, `error`, `warn`, `info`, `debug` or `trace`), and other levels for modules.
///
/// ```
/// use tollgate_server::settings::LogLevel;
/// assert!("info,tollgate_server::net=debug".parse::<LogLevel>().is_ok());
/// assert!("infos".parse::<LogLevel>().is_err());
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct LogLevel(String);

impl LogLevel {
    const KNOWN: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

    /// The filter. Modules without a level are written at `info`.
    #[must_use]
    pub fn filter(&self) -> EnvFilter {
        // The last directive for a module has priority.
        EnvFilter::new(format!("info,{}", self.0))
    }
}

impl FromStr for LogLevel {
    type Err = String;

    /// Stricter than `EnvFilter`, which takes a misspelled level for the name of a module and then
    /// writes nothing else.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_level =
            |level: &str| LogLevel::KNOWN.iter().any(|known| known.eq_ignore_ascii_case(level));
        let is_known = |directive: &str| match directive.trim().rsplit_once('=') {
            Some((part, level)) => !part.is_empty() && is_level(level),
            None => is_level(directive.trim()),
        };
        if text.split(',').all(is_known) && EnvFilter::try_new(text).is_ok() {
            return Ok(LogLevel(text.to_owned()));
        }
        let known = LogLevel::KNOWN.join(", ");
        Err(format!(
            "log level {text:?}: expected one of {known}, or levels of parts as well: info,tollgate_server::net=debug"
        ))
    }
}

impl TryFrom<String> for LogLevel {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        LogLevel("info".to_owned())
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text for people.
    #[default]
    Text,
    /// JSON, one object per line.
    Json,
}

/// Settings of traces.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSettings {
    /// The URL of a collector that accepts OTLP over HTTP; without one there are no traces.
    pub endpoint: Option<String>,
    /// The share of requests that are traced if they do not belong to a trace already: 1.0 is all,
    /// 0.01 one of a hundred.
    pub sample: f64,
    /// The service name of this server in traces.
    pub service: String,
}

impl Default for TraceSettings {
    fn default() -> Self {
        TraceSettings { endpoint: None, sample: 1.0, service: "tollgate".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_level_is_refused() {
        for text in ["inof", "warning", "", "info,", "info,net", "net=loud", "=debug", "5", "a=b=c"]
        {
            let error = text.parse::<LogLevel>().unwrap_err();
            assert!(error.starts_with(&format!("log level {text:?}: expected one of")), "{error}");
        }
        for text in ["off", "INFO", "warn,hyper=error", "tollgate_server::net=debug"] {
            assert_eq!(text.parse::<LogLevel>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn modules_without_a_level_are_at_info() {
        let filter = |text: &str| text.parse::<LogLevel>().unwrap().filter().to_string();
        assert!(filter("tollgate_server::net=debug").contains("info"));
        assert_eq!(filter("error"), "error");
    }
}
