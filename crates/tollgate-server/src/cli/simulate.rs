//! `tollgate simulate`: runs limits against generated traffic.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate::{Algorithm, Policy};
use tollgate_simulate::{Group, Load, Report, Retry, Simulation};

use super::output::say;
use super::replay::with_algorithm;
use crate::settings::span;

#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct SimulateCommand {
    /// Limits, such as "100/minute burst=20". Several are compared on the same traffic
    #[arg(value_name = "LIMIT", required = true)]
    limits: Vec<Policy>,

    /// The traffic of each client: "constant 3/second", "poisson 3/second", "bursts of 20 every
    /// 10s" or "daily 1/minute peak 1/second". Several loads are of different clients
    #[arg(long, value_name = "LOAD", required = true)]
    load: Vec<Load>,

    /// How many clients there are. With several loads once for all, or once for each
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: Vec<u32>,

    /// What denied clients do: none, immediate, retry-after, "retry-after exact" or "backoff
    /// base=100ms max=30s jitter=full". With several loads once for all, or once for each
    #[arg(long, value_name = "RETRY", default_value = "none")]
    retry: Vec<Retry>,

    /// The cost of a request. With several loads once for all, or once for each
    #[arg(long, value_name = "N", default_value = "1")]
    cost: Vec<u64>,

    /// How long the traffic lasts. Default: 10 minutes, with a daily load a day
    #[arg(long = "for", value_name = "SPAN", value_parser = span::parse)]
    span: Option<Duration>,

    /// The seed of the random numbers. The same seed gives the same traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// All clients share one key. Else each has its own
    #[arg(long)]
    shared: bool,

    /// Tries every limit with each algorithm
    #[arg(long)]
    algorithms: bool,

    /// How many attempts a client makes for one request at most
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,

    /// The time from a denied attempt to the next one, where a client tries again at once
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "20ms")]
    round_trip: Duration,

    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,

    /// Writes the charts to this file as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Writes a report with charts to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tollgate simulate '100/minute burst=20' --load 'poisson 3/second' --clients 50
  tollgate simulate 10/second '10/second fixed-window' --load 'bursts of 30 every 10s' --retry retry-after
  tollgate simulate 600/minute --load 'constant 1/second' --clients 9 --load 'constant 50/second' --clients 1 --shared
  tollgate simulate 5/second --algorithms --load 'daily 1/minute peak 8/second' --html day.html

The traffic comes from the seed, and every limit gets the same requests. The decisions are those of
the production code, on a clock that the simulation sets.";

impl SimulateCommand {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let simulation = Simulation {
            groups: self.groups()?,
            span: self.span.unwrap_or_else(|| self.usual_span()),
            seed: self.seed,
            shared_key: self.shared,
            round_trip: self.round_trip,
            attempts: self.attempts,
        };
        let mut outcomes = Vec::new();
        for limit in self.limits() {
            outcomes.push(simulation.run(&limit, |_| {})?);
        }
        let report = Report { simulation, outcomes };
        for (file, picture) in
            [(&self.svg, Report::to_svg as fn(&Report) -> String), (&self.html, Report::to_html)]
        {
            if let Some(file) = file {
                write(file, &picture(&report))?;
            }
        }
        say(&if self.json { report.to_json() } else { report.to_text() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Each load with its number of clients, its way to try again and its cost.
    fn groups(&self) -> Result<Vec<Group>, String> {
        let groups = self.load.len();
        let mut all = Vec::new();
        for (index, load) in self.load.iter().enumerate() {
            all.push(Group {
                load: *load,
                clients: of_group("clients", &self.clients, index, groups)?,
                retry: of_group("retry", &self.retry, index, groups)?,
                cost: of_group("cost", &self.cost, index, groups)?,
            });
        }
        Ok(all)
    }

    fn usual_span(&self) -> Duration {
        let has_day = self.load.iter().any(|load| matches!(load, Load::Daily(..)));
        Duration::from_secs(if has_day { 86_400 } else { 600 })
    }

    fn limits(&self) -> Vec<Policy> {
        let all = self.limits.iter();
        if !self.algorithms {
            return all.cloned().collect();
        }
        let with_all = |limit: &Policy| {
            Algorithm::PERIODIC
                .into_iter()
                .filter_map(|one| with_algorithm(limit, one))
                .collect::<Vec<_>>()
        };
        all.flat_map(with_all).collect()
    }
}

/// The value of an option for one group of clients: options are given once, or once for each load.
fn of_group<T: Copy>(name: &str, values: &[T], index: usize, groups: usize) -> Result<T, String> {
    let value = if values.len() == 1 { values.first() } else { values.get(index) };
    value.copied().filter(|_| values.len() == 1 || values.len() == groups).ok_or_else(|| {
        format!(
            "--{name} is given {} times and --load {groups} times: give it once, or once for each load",
            values.len()
        )
    })
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_given_once_or_once_for_each_load() {
        assert_eq!(of_group("clients", &[5], 1, 2), Ok(5));
        assert_eq!(of_group("clients", &[5, 6], 1, 2), Ok(6));
        let error = of_group("clients", &[5, 6, 7], 1, 2).unwrap_err();
        assert!(error.contains("given 3 times and --load 2 times"), "{error}");
    }
}
