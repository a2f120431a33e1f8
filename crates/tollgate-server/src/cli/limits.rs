//! `tollgate limits`: explains limits in words.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use tollgate::calendar::{ZoneData, zone_data};
use tollgate::{Description, Limit, Policy};

use super::output::say;
use crate::seconds::Seconds;

#[derive(Args, Debug)]
pub(super) struct Limits {
    /// Limits as text: "100/minute burst=20; 1000/day"
    #[arg(required = true)]
    limits: Vec<String>,

    /// Print JSON instead of words
    #[arg(long)]
    json: bool,
}

impl Limits {
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut all = Vec::new();
        for text in &self.limits {
            let policy: Policy =
                text.parse().map_err(|error| format!("limit {text:?}: {error}"))?;
            all.extend_from_slice(policy.limits());
        }
        if self.json {
            let all: Vec<_> = all
                .iter()
                .map(|limit| {
                    let Description { admits, at_most, .. } = limit.describe();
                    json!({
                        "limit": limit.to_string(),
                        "algorithm": limit.algorithm().to_string(),
                        "quota": limit.quota(),
                        "period": Seconds(limit.period()).to_string(),
                        "burst": limit.burst(),
                        "name": limit.name(),
                        "charge_denied": limit.charge_denied(),
                        "zone_data": limit.calendar().map(|_| &zone_data().version),
                        "identity": limit.identity(),
                        "admits": admits,
                        "bound": at_most,
                    })
                })
                .collect();
            say(&format!("{}\n", serde_json::Value::from(all)))?;
        } else {
            let words: Vec<_> = all.iter().map(words).collect();
            say(&words.join("\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn words(limit: &Limit) -> String {
    let (mut out, description) = (format!("{limit}\n"), limit.describe());
    let mut line = |what: &str, text: &str| {
        let _ = writeln!(out, "  {what:<10}{text}");
    };
    line("algorithm", &limit.algorithm().to_string());
    line("admits", &description.admits);
    line("at most", &description.at_most);
    if limit.calendar().is_some() {
        let ZoneData { version, directory, .. } = zone_data();
        let place = match directory {
            Some(directory) => format!("of {}", directory.display()),
            None => "that are built in".to_owned(),
        };
        line("zones", &format!("the rules {version} {place}"));
    }
    if limit.charge_denied() {
        line("denied", "hits that are refused count as well");
    }
    match limit.name() {
        Some(_) => line(
            "counters",
            "stay when the quota changes: they belong to name, algorithm and period",
        ),
        None => line(
            "counters",
            "belong to this very limit; name=... keeps them when the quota changes",
        ),
    }
    out
}
