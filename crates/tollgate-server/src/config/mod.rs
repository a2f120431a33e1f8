//! The configuration file: TOML or YAML, into [`Settings`] and a [`RuleSet`].

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tollgate::Policy;

use crate::rules::{Rule, RuleSet};
use crate::settings::{
    AuthSettings, ConnectionSettings, LogSettings, Settings, TlsSettings, TraceSettings,
};

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Everything that is not a rule.
    pub settings: Settings,
    /// The rules.
    pub rules: RuleSet,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    limits: BTreeMap<String, LimitSection>,
    tls: TlsSettings,
    auth: AuthSettings,
    connections: ConnectionSettings,
    log: LogSettings,
    traces: TraceSettings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitSection {
    limit: String,
    #[serde(default)]
    shadow: bool,
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read or says something that makes no sense.
pub fn load(path: &Path) -> Result<Config, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let file: File = toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    let mut rules = RuleSet::default();
    let File { limits, tls, auth, connections, log, traces } = file;
    for (name, section) in limits {
        let policy: Policy = section.limit.parse().map_err(|error| format!("{shown}: {error}"))?;
        let rule = Rule { shadow: section.shadow, ..Rule::new(&name[..], policy) };
        rules.limits.insert((String::new(), name), rule);
    }
    let settings = Settings { tls, auth, connections, log, traces, ..Settings::default() };
    Ok(Config { settings, rules })
}
