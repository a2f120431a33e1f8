//! `tollgate replay`: finds in access logs which clients a limit would have denied.

use std::error::Error;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate::{Algorithm, Clock as _, Limit, Policy, SystemClock};
use tollgate_http::ClientIp;
use tollgate_replay::{
    Candidate, Filter, Format, KeyPart, PathTemplates, Progress, Replay, grouped,
};

use super::ERROR;
use super::output::say;
use crate::auth::Token;
use crate::config::Files;
use crate::rules::{Pattern, Rule, Treatment};
use crate::settings::span;

#[derive(Args, Debug)]
#[command(after_long_help = FORMATS)]
pub(super) struct ReplayCommand {
    /// Access logs, plain or compressed with gzip or zstd; `-` is standard input. Several are merged
    /// by time
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,

    /// A limit to try, such as "100/minute burst=20". Several are compared
    #[arg(long, value_name = "LIMIT")]
    limit: Vec<Policy>,

    /// Tries the rules of a configuration file, with their overrides
    #[arg(long, value_name = "FILE", conflicts_with = "limit")]
    config: Option<PathBuf>,

    /// Tries only the rule of this name
    #[arg(long, value_name = "NAME", requires = "config")]
    rule: Vec<String>,

    /// Tries every limit with each algorithm
    #[arg(long)]
    algorithms: bool,

    /// Shows how much the keys asked for, and quotas that leave most of them unaffected
    #[arg(long)]
    suggest: bool,

    /// Measures the demand in this span too, for --suggest
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    span: Vec<Duration>,

    /// What is limited: ip, path, method, user, header:NAME, field:NAME, joined by +
    #[arg(long, value_name = "KEY", default_value = "ip")]
    key: String,

    /// Addresses of your proxies, such as 10.0.0.0/8: the client is the right-most other address
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    trusted_proxies: Vec<String>,

    /// The number of your proxies in front: the client is the address that the outermost wrote
    #[arg(long, value_name = "N", conflicts_with = "trusted_proxies")]
    proxy_hops: Option<usize>,

    /// The bits of an IPv6 address that stand for one client
    #[arg(long, value_name = "BITS", default_value_t = 64)]
    ipv6_prefix: u8,

    /// One name for all paths of a form, such as /users/{id}
    #[arg(long, value_name = "TEMPLATE")]
    path: Vec<String>,

    /// The field with the cost of a request
    #[arg(long, value_name = "FIELD")]
    cost: Option<String>,

    /// Replays only requests with this, such as path=/api/* or status!=404. Several must all hold
    #[arg(long = "where", value_name = "FIELD=PATTERN", value_parser = filter)]
    filters: Vec<Filter>,

    /// Leaves out requests that were limited when the log was written (status 429 or a mark)
    #[arg(long)]
    without_limited: bool,

    /// The format, by name or as a pattern in the syntax of nginx's log_format. Detected unless it
    /// is set
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Tells which field has a meaning, such as client=real_ip or end=written_at
    #[arg(long, value_name = "ROLE=NAME")]
    field: Vec<String>,

    /// How much later than its neighbours a request may be in the log
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "5m")]
    window: Duration,

    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,

    /// Writes a report with charts to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Shows digests of keys instead of the keys
    #[arg(long)]
    anonymise: bool,

    /// The secret of the digests, to compare reports; a new one for each report unless it is set
    #[arg(long, value_name = "SECRET", requires = "anonymise")]
    salt: Option<String>,

    /// Shows no progress
    #[arg(long, short)]
    quiet: bool,
}

const FORMATS: &str = "\
Formats: combined, common, vhost-combined, combined-timed (with $request_time), envoy, haproxy, \
haproxy-syslog, alb, json (Caddy, Traefik, Envoy, nginx), CSV with a header and CloudFront, or a \
pattern such as '$remote_addr [$time_local] \"$request\" $status $request_time'.

Roles of --field: start, end, duration, duration_s, duration_ms, duration_us, duration_ns, client, \
forwarded, request, method, path, status, limited. In JSON a name is a path: request.client_ip.

Exits with 0 unless a log cannot be read at all.";

/// Parses `FIELD=PATTERN` or `FIELD!=PATTERN`.
fn filter(text: &str) -> Result<Filter, String> {
    let (field, pattern) = text
        .split_once('=')
        .filter(|(field, _)| !field.trim_end_matches('!').trim().is_empty())
        .ok_or("write FIELD=PATTERN or FIELD!=PATTERN, as path=/api/*")?;
    let is_negated = field.ends_with('!');
    let pattern = Pattern::new(pattern.trim());
    let field = field.trim_end_matches('!').trim();
    Ok(Filter::new(field, move |value| pattern.matches(value) != is_negated))
}

impl ReplayCommand {
    pub(super) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        let mut replay = Replay::new(self.logs.clone(), self.candidates()?);
        replay.format = match &self.format {
            Some(name) => Some(match Format::named(name) {
                Some(format) => format,
                None if name.contains('$') => Format::pattern(name)?,
                None => return Err(unknown_format(name).into()),
            }),
            None => None,
        };
        replay.window = self.window;
        replay.demand.clone_from(&self.span);
        let reading = &mut replay.reading;
        reading.key = KeyPart::parse(&self.key)?;
        reading.client = self.client()?;
        reading.templates = PathTemplates::new(&self.path)?;
        reading.cost.clone_from(&self.cost);
        reading.filters.clone_from(&self.filters);
        reading.without_limited = self.without_limited;
        self.field.iter().try_for_each(|text| reading.field(text))?;

        let mut bar = ProgressLine::new(&self.logs, self.quiet);
        let report = replay.run(|progress| bar.show(progress));
        bar.clear();
        let mut report = report?;
        if self.anonymise {
            match &self.salt {
                Some(salt) => report.anonymise(salt.as_bytes()),
                None => report.anonymise(Token::new()?.reveal().as_bytes()),
            }
        }
        if let Some(file) = &self.html {
            std::fs::write(file, report.to_html())
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        if self.json {
            say(&report.to_json())?;
        } else {
            let demand = if self.suggest { report.demand_to_text() } else { String::new() };
            say(&(report.to_text() + &demand))?;
        }
        let failed = report.nothing_readable();
        Ok(if failed { ExitCode::from(ERROR) } else { ExitCode::SUCCESS })
    }

    /// The limits of the command line, or the rules of a file.
    fn candidates(&self) -> Result<Vec<Candidate>, Box<dyn Error>> {
        if let Some(file) = &self.config {
            return rules(file, &self.rule);
        }
        if self.limit.is_empty() && !self.suggest {
            return Err("no limit: name one with --limit \"100/minute\", rules with --config FILE, or use --suggest".into());
        }
        if self.limit.is_empty() && self.span.is_empty() {
            return Err("--suggest without a limit needs a span: --span 1m".into());
        }
        let mut policies = Vec::new();
        for policy in &self.limit {
            if self.algorithms {
                for algorithm in Algorithm::ALL {
                    policies.extend(with_algorithm(policy, algorithm));
                }
            } else {
                policies.push(policy.clone());
            }
        }
        Ok(policies.into_iter().map(Candidate::new).collect())
    }

    fn client(&self) -> Result<ClientIp, Box<dyn Error>> {
        let client = match self.proxy_hops {
            Some(hops) => ClientIp::behind_hops(hops),
            None if self.trusted_proxies.is_empty() => ClientIp::peer(),
            None => ClientIp::behind(self.trusted_proxies.iter().map(String::as_str))?,
        };
        Ok(client.ipv6_prefix(self.ipv6_prefix))
    }
}

fn unknown_format(name: &str) -> String {
    let names: Vec<_> = Format::names().map(|(name, _)| name).collect();
    format!(
        "format {name:?}: unknown; known are {}, and patterns such as '$remote_addr [$time_local] \"$request\"'",
        names.join(", ")
    )
}

/// The policy with another algorithm, or `None` if its limits cannot have it.
fn with_algorithm(policy: &Policy, algorithm: Algorithm) -> Option<Policy> {
    let limits = policy.limits().iter().map(|limit| {
        let changed = Limit::new(limit.quota(), limit.period()).algorithm(algorithm);
        // Windows have no burst.
        changed.clone().burst(limit.burst()).build().or_else(|_| changed.build())
    });
    let limits: Vec<Limit> = limits.collect::<Result<_, _>>().ok()?;
    Policy::new(limits).ok()
}

/// The rules of a file that have limits, as candidates.
fn rules(file: &Path, names: &[String]) -> Result<Vec<Candidate>, Box<dyn Error>> {
    let config = Files::at(file).load()?;
    let wanted = |rule: &Rule| names.is_empty() || names.contains(&rule.name);
    let known = config.rules.limits.values();
    let candidates: Vec<_> = known.filter(|rule| wanted(rule)).filter_map(candidate).collect();
    if candidates.is_empty() {
        return Err(format!("{}: no rule with a limit to replay", file.display()).into());
    }
    Ok(candidates)
}

fn candidate(rule: &Rule) -> Option<Candidate> {
    let Treatment::Limited(usual) = &rule.treatment else { return None };
    let (name, usual, rule) = (rule.name.clone(), usual.clone(), rule.clone());
    Some(Candidate::choosing(name, usual, move |key| {
        let treatment = rule.keys.find(key.as_bytes()).unwrap_or(&rule.treatment);
        let price = rule.costs.find(key.as_bytes()).copied().unwrap_or(rule.cost);
        match treatment {
            Treatment::Limited(policy) => {
                tollgate_replay::Treatment::Limited(policy.clone(), price)
            }
            Treatment::Exempt => tollgate_replay::Treatment::Exempt,
            Treatment::Blocked => tollgate_replay::Treatment::Blocked,
        }
    }))
}

/// The progress line of a replay on a terminal.
struct ProgressLine {
    clock: SystemClock,
    began: tollgate::Timestamp,
    shown: tollgate::Timestamp,
    /// The bytes of all logs; `None` if one of them is not a regular file.
    total: Option<u64>,
    shows: bool,
}

impl ProgressLine {
    fn new(logs: &[PathBuf], quiet: bool) -> ProgressLine {
        let clock = SystemClock::new();
        let length = |log: &PathBuf| std::fs::metadata(log).ok().map(|file| file.len());
        let (began, total) = (clock.now(), logs.iter().map(length).sum());
        let shows = !quiet && std::io::stderr().is_terminal();
        ProgressLine { clock, began, shown: began, total, shows }
    }

    /// Prints at most five times a second.
    fn show(&mut self, progress: Progress) {
        let now = self.clock.now();
        if !self.shows || now.since(self.shown) < Duration::from_millis(200) {
            return;
        }
        self.shown = now;
        let millis = now.since(self.began).as_millis().max(1);
        let per_second = u128::from(progress.lines) * 1_000 / millis;
        let left = self.total.filter(|_| progress.bytes > 0).map(|total| {
            let bytes = u128::from(progress.bytes);
            let seconds = u128::from(total).saturating_sub(bytes) * millis / bytes / 1_000;
            format!("{:>3} %  {seconds} s left", bytes * 100 / u128::from(total.max(1)))
        });
        let line = format!(
            "{:>14} lines  {:>10}/s  {}",
            grouped(progress.lines),
            grouped(u64::try_from(per_second).unwrap_or(u64::MAX)),
            left.unwrap_or_default()
        );
        drop(write!(std::io::stderr(), "\r{line:<79}"));
    }

    fn clear(&self) {
        if self.shows {
            drop(write!(std::io::stderr(), "\r{:79}\r", ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_may_be_negated() {
        assert!(filter("status!=404").unwrap().accepts(b"200"));
        assert!(!filter("status != 404").unwrap().accepts(b"404"));
        assert!(filter("path=/api/*").unwrap().accepts(b"/api/users"));
        for bad in ["", "x", "=y", "!=y"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
