//! The log and traces.

use clap::ValueEnum;
use serde::Deserialize;

/// What is in the log.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// error, warn, info, debug or trace; also by part of the program.
    pub level: String,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line.
    Json,
}

/// Where traces go.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSettings {
    /// A collector that takes OTLP over HTTP; without one there are no traces.
    pub endpoint: Option<String>,
    /// How many of those requests are traced that are not part of a trace: 1.0 is all, 0.01 one of a hundred.
    pub sample: f64,
    /// What this server is called in traces.
    pub service: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings { level: "info".to_owned(), format: LogFormat::default() }
    }
}

impl Default for TraceSettings {
    fn default() -> Self {
        TraceSettings { endpoint: None, sample: 1.0, service: "tollgate".to_owned() }
    }
}
