//! `tollgate limits`: explains limits in words.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tollgate::{Algorithm, Limit, Policy};

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
                    json!({
                        "limit": limit.to_string(),
                        "algorithm": limit.algorithm().to_string(),
                        "quota": limit.quota(),
                        "period": Seconds(limit.period()).to_string(),
                        "burst": limit.burst(),
                        "name": limit.name(),
                        "charge_denied": limit.charge_denied(),
                        "identity": limit.identity(),
                        "admits": admits(limit),
                        "bound": bound(limit),
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
    let mut out = format!("{limit}\n");
    let mut line = |what: &str, text: &str| {
        let _ = writeln!(out, "  {what:<10}{text}");
    };
    line("algorithm", &limit.algorithm().to_string());
    line("admits", &admits(limit));
    line("at most", &bound(limit));
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

/// One sentence that says what the limit admits.
fn admits(limit: &Limit) -> String {
    let (n, p, b) = (limit.quota(), Span(limit.period()), limit.burst());
    match limit.algorithm() {
        Algorithm::FixedWindow => {
            format!("{n} in each stretch of {p} of the clock, counted from 1970")
        }
        Algorithm::FixedWindowPerKey => {
            format!("{n} in {p} from the first hit of a key, then the next")
        }
        Algorithm::ElasticWindow => {
            format!("{n} until the key was silent for {p}: every attempt starts the wait anew")
        }
        Algorithm::MovingWindow => format!("{n} in the last {p}, at any moment"),
        Algorithm::SlidingWindow => format!(
            "about {n} in the last {p}: the window before counts by the part that is still in sight"
        ),
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
            let every = limit.period().as_nanos() / u128::from(n);
            let every = Span(Duration::from_nanos(u64::try_from(every).unwrap_or(u64::MAX)));
            format!("{b} at once, then one every {every}: {n} in {p} in the long run")
        }
        _ => limit.to_string(),
    }
}

/// The most units that the limit can admit in a span of time.
fn bound(limit: &Limit) -> String {
    let (n, p, b) = (limit.quota(), Span(limit.period()), limit.burst());
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::FixedWindowPerKey => {
            format!(
                "{} in any {p}, around an edge; {n} * (ceil(d / {p}) + 1) in any span d",
                n.saturating_mul(2)
            )
        }
        Algorithm::ElasticWindow => format!("{n} until the key was silent for {p}"),
        Algorithm::MovingWindow => format!("{n} in any {p}; {n} * ceil(d / {p}) in any span d"),
        Algorithm::SlidingWindow if n == 1 => format!("1 in any {p}"),
        Algorithm::SlidingWindow => format!("below {} in any {p}", n.saturating_mul(2)),
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
            format!("{} in any {p}; {b} + floor(d * {n} / {p}) in any span d", b.saturating_add(n))
        }
        _ => String::new(),
    }
}

/// A duration in words.
struct Span(Duration);

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.as_nanos();
        for (name, unit) in [
            ("week", 604_800_000_000_000_u128),
            ("day", 86_400_000_000_000),
            ("hour", 3_600_000_000_000),
            ("minute", 60_000_000_000),
            ("second", 1_000_000_000),
        ] {
            if nanos >= unit && nanos.is_multiple_of(unit) {
                return match nanos / unit {
                    1 => write!(f, "1 {name}"),
                    many => write!(f, "{many} {name}s"),
                };
            }
        }
        match nanos {
            1_000_000_000.. => write!(f, "{} s", Seconds(self.0)),
            1_000_000.. => decimal(f, nanos, 1_000_000, "ms"),
            1_000.. => decimal(f, nanos, 1_000, "us"),
            _ => write!(f, "{nanos} ns"),
        }
    }
}

/// A number with up to three decimals.
fn decimal(
    f: &mut std::fmt::Formatter<'_>,
    nanos: u128,
    unit: u128,
    name: &str,
) -> std::fmt::Result {
    let thousandths = (nanos % unit) * 1_000 / unit;
    let digits = format!("{thousandths:03}");
    match digits.trim_end_matches('0') {
        "" => write!(f, "{} {name}", nanos / unit),
        digits => write!(f, "{}.{digits} {name}", nanos / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (String, String) {
        let limit: Limit = text.parse().unwrap();
        (admits(&limit), bound(&limit))
    }

    #[test]
    fn a_bucket_is_explained_by_its_burst_and_its_rate() {
        let (admits, bound) = of("100/minute burst=20");
        assert_eq!(admits, "20 at once, then one every 600 ms: 100 in 1 minute in the long run");
        assert_eq!(bound, "120 in any 1 minute; 20 + floor(d * 100 / 1 minute) in any span d");
    }

    #[test]
    fn a_window_is_explained_by_its_edges() {
        assert!(
            of("5 per 90 seconds fixed-window").0.starts_with("5 in each stretch of 90 seconds")
        );
        assert!(of("5/minute moving-window").1.starts_with("5 in any 1 minute"));
        assert_eq!(of("1/day sliding-window").1, "1 in any 1 day");
        assert!(of("3 per 1500 milliseconds elastic-window").1.contains("1.5 s"));
    }
}
