//! `tollgate replay`: finds in access logs which clients a limit would have denied.

mod candidates;

pub(super) use candidates::with_algorithm;

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tollgate::Policy;
use tollgate_http::{ClientIp, WrittenIn};
use tollgate_replay::{
    Candidate, Filter, Format, KeyPart, MAX_KEYS, OnDenied, PathTemplates, Replay, Zone, anonymous,
    parse_time,
};

use super::ERROR;
use super::output::say;
use super::progress::ProgressLine;
use crate::auth::Token;
use crate::rules::Pattern;
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

    /// Suggests quotas that leave 99, 99.9 and 100 % of the keys unaffected: for the periods of the
    /// limits, else for a second, a minute and an hour
    #[arg(long)]
    suggest: bool,

    /// Measures the demand of the keys in this span too
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

    /// Reads the header Forwarded (RFC 7239) instead of X-Forwarded-For
    #[arg(long)]
    forwarded: bool,

    /// The bits of an IPv6 address that stand for one client
    #[arg(long, value_name = "BITS", default_value_t = 64, value_parser = clap::value_parser!(u8).range(0..=128))]
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

    /// Leaves out requests that began before this time, such as 2026-10-05 or "2026-10-05 09:00:00"
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Leaves out requests that began at this time or later
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// The time zone of stamps that name none, and of --since and --until: UTC, +02:00 or
    /// Europe/Berlin
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, default_value = "UTC")]
    time_zone: Zone,

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

    /// How many keys are told apart. Requests of further ones are counted and left out
    #[arg(long, value_name = "N", default_value_t = MAX_KEYS)]
    max_keys: usize,

    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,

    /// Writes a report with charts to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Writes each denied request to this file, as a line of JSON with the log and the line
    #[arg(long, value_name = "FILE")]
    denied: Option<PathBuf>,

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
Examples:
  tollgate replay access.log --limit '100/minute burst=20'
  tollgate replay access.log* --config rules.toml --rule api --html report.html
  tollgate replay access.log --suggest
  zcat -f access.log* | tollgate replay - --limit 10/second --algorithms
  tollgate replay app.json --limit 1000/hour --key field:tenant --cost tokens --field start=when

Formats, detected unless one is named: common and combined (nginx, Apache); main, which is combined \
with X-Forwarded-For; each also as -timed (with $request_time), -msec, -timed-msec or -msec-timed, \
and with vhost- (host and port) or host- in front; envoy, istio, alb, haproxy, haproxy-syslog, \
haproxy-rfc5424, json (Caddy, Traefik, Envoy, nginx and others), csv, logs with a #Fields line \
(CloudFront, IIS), or a pattern such as '$remote_addr [$time_local] \"$request\" $status $request_time'.

Roles of --field: start, end, duration, duration_s, duration_ms, duration_us, duration_ns, client, \
x_forwarded_for, forwarded, request, method, path, status, limited. In JSON a name is a path: \
request.client_ip. --where takes names of fields, and client, method, path, request and status.

Exits with 0 unless no line can be read.";

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
        replay.format = self.format()?;
        replay.window = self.window;
        replay.demand = self.spans();
        replay.max_keys = self.max_keys;
        let reading = &mut replay.reading;
        reading.key = KeyPart::parse(&self.key)?;
        reading.client = self.client()?;
        reading.standard_forwarded = self.forwarded;
        reading.templates = PathTemplates::new(&self.path)?;
        reading.cost.clone_from(&self.cost);
        reading.filters.clone_from(&self.filters);
        reading.since = self.time(self.since.as_deref())?;
        reading.until = self.time(self.until.as_deref())?;
        reading.without_limited = self.without_limited;
        reading.zone = self.time_zone.clone();
        self.field.iter().try_for_each(|text| reading.field(text))?;
        let salt = self.salt()?;
        if let Some(file) = &self.denied {
            let create = File::create(file).map_err(|error| format!("{}: {error}", file.display()));
            replay.on_denied = Some(write_denied(create?, salt.clone()));
        }

        let mut bar = ProgressLine::new(&self.logs, self.quiet);
        let report = replay.run(|progress| bar.show(progress));
        bar.clear();
        let mut report = report?;
        if let Some(salt) = &salt {
            report.anonymise(salt);
        }
        if let Some(file) = &self.html {
            std::fs::write(file, report.to_html())
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        if self.json {
            say(&report.to_json())?;
        } else {
            let suggestions =
                if self.suggest { report.suggestions_to_text() } else { String::new() };
            say(&(report.to_text() + &suggestions))?;
        }
        let failed = report.nothing_readable();
        Ok(if failed { ExitCode::from(ERROR) } else { ExitCode::SUCCESS })
    }

    fn format(&self) -> Result<Option<Format>, String> {
        let Some(name) = &self.format else { return Ok(None) };
        match Format::named(name) {
            Some(format) => Ok(Some(format)),
            None if name.contains('$') => Format::pattern(name).map(Some),
            None => Err(format!(
                "format {name:?}: unknown; known are {}, and patterns such as '$remote_addr [$time_local] \"$request\"'",
                Format::SUMMARY
            )),
        }
    }

    /// The limits of the command line, or the rules of a file.
    fn candidates(&self) -> Result<Vec<Candidate>, Box<dyn Error>> {
        if let Some(file) = &self.config {
            return candidates::of_rules(file, &self.rule);
        }
        if self.limit.is_empty() && !self.suggest && self.span.is_empty() {
            return Err("no limit: name one with --limit \"100/minute\", rules with --config FILE, or use --suggest".into());
        }
        Ok(candidates::of_limits(&self.limit, self.algorithms))
    }

    /// The spans of time for which the demand is measured beside the periods of the limits.
    fn spans(&self) -> Vec<Duration> {
        let has_none = self.span.is_empty() && self.limit.is_empty() && self.config.is_none();
        match has_none {
            true => [1, 60, 3_600].map(Duration::from_secs).into(),
            false => self.span.clone(),
        }
    }

    /// A time of the command line, in microseconds since the epoch.
    fn time(&self, text: Option<&str>) -> Result<Option<u64>, String> {
        let Some(text) = text else { return Ok(None) };
        let midnight = format!("{text} 00:00:00");
        let stamp = parse_time(text.as_bytes()).or_else(|| parse_time(midnight.as_bytes()));
        let micros = stamp.and_then(|stamp| match stamp.is_local {
            true => self.time_zone.instant(stamp.micros, 0),
            false => Some(stamp.micros),
        });
        micros.map(Some).ok_or_else(|| {
            format!("time {text:?}: write a day as 2026-10-05, or a time as \"2026-10-05 09:00:00\" or 2026-10-05T09:00:00+02:00")
        })
    }

    /// The secret for the digests that replace keys in the report. `None` if keys are shown.
    fn salt(&self) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        if !self.anonymise {
            return Ok(None);
        }
        Ok(Some(match &self.salt {
            Some(salt) => salt.clone().into_bytes(),
            None => Token::new()?.reveal().as_bytes().to_vec(),
        }))
    }

    fn client(&self) -> Result<ClientIp, Box<dyn Error>> {
        let client = match self.proxy_hops {
            Some(hops) => ClientIp::behind_hops(hops),
            None if self.trusted_proxies.is_empty() => ClientIp::peer(),
            None => ClientIp::behind(self.trusted_proxies.iter().map(String::as_str))?,
        };
        let header = if self.forwarded { WrittenIn::Forwarded } else { WrittenIn::XForwardedFor };
        Ok(client.written_in(header).ipv6_prefix(self.ipv6_prefix))
    }
}

/// Writes denied requests to a file, a line of JSON each.
fn write_denied(file: File, salt: Option<Vec<u8>>) -> OnDenied {
    let mut out = BufWriter::new(file);
    Box::new(move |request| {
        let key = match &salt {
            Some(salt) => anonymous(request.key, salt),
            None => request.key.to_owned(),
        };
        let line = json!({
            "limit": request.limit,
            "log": request.log,
            "line": request.line,
            "time_us": request.at,
            "key": key,
            "cost": request.cost,
            "retry_after_us": request.retry_after.map(|wait| wait.as_micros() as u64),
        });
        writeln!(out, "{line}").map_err(|error| format!("denied requests: {error}"))
    })
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
