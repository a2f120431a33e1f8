//! The metrics in the text format of Prometheus. Labels are rules, verdicts and ports: their number
//! depends on the configuration, never on the number of keys.

use std::time::Duration;

use tollgate::shared::{Figure, SharedStore as _, Stats};

use super::text::Text;
use crate::observe::{Observer, Protocol, RuleStats};
use crate::reload::ReloadStatus;
use crate::seconds::Seconds;
use crate::service::{Service, Verdict};

pub(super) fn text(service: &Service) -> String {
    let mut text = Text::default();
    text.metric("tollgate_build_info", "gauge", "The version that runs.");
    text.value("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    rules(service.observer(), &mut text);
    store(&service.store().guard().stats(), &mut text);
    figures(&service.store().report().figures, &mut text);
    ports(service.observer(), &mut text);
    certificates(service.observer(), &mut text);
    reloads(&service.reloads().status(), &mut text);
    memory(&mut text);
    text.into_string()
}

fn rules(observer: &Observer, text: &mut Text) {
    let rules = observer.rules();
    text.metric(
        "tollgate_hits_total",
        "counter",
        "Hits by rule and how they ended; rule \"\" is limits that came with requests.",
    );
    for rule in &rules {
        for verdict in Verdict::ALL {
            let mut labels = of_rule(rule);
            labels.push(("verdict", verdict.name()));
            text.value("tollgate_hits_total", &labels, rule.count(verdict));
        }
    }
    text.metric(
        "tollgate_errors_total",
        "counter",
        "Questions that the store did not answer, by rule.",
    );
    for rule in &rules {
        text.value("tollgate_errors_total", &of_rule(rule), rule.errors());
    }
}

/// Labels. Only rules of domains have a domain.
fn of_rule(rule: &RuleStats) -> Vec<(&str, &str)> {
    let mut labels = vec![("namespace", rule.namespace())];
    if !rule.domain().is_empty() {
        labels.push(("domain", rule.domain()));
    }
    labels.push(("rule", rule.name()));
    labels
}

fn reloads(status: &ReloadStatus, text: &mut Text) {
    text.metric(
        "tollgate_reloads_total",
        "counter",
        "New configurations, by whether their rules were put in force.",
    );
    for (outcome, count) in [("succeeded", status.succeeded), ("failed", status.failed)] {
        text.value("tollgate_reloads_total", &[("outcome", outcome)], count);
    }
    text.metric(
        "tollgate_config_in_force",
        "gauge",
        "1 if all of the newest configuration is in force, 0 if it was refused or part of it needs a restart.",
    );
    text.value("tollgate_config_in_force", &[], u8::from(status.in_force()));
    text.metric(
        "tollgate_config_loaded_timestamp_seconds",
        "gauge",
        "When the rules in force were read.",
    );
    text.value("tollgate_config_loaded_timestamp_seconds", &[], status.last_success);
}

/// Calls on the store by their outcome.
pub(super) fn store_calls(stats: &Stats) -> [(&'static str, u64); 10] {
    [
        ("answered", stats.answered),
        ("remembered", stats.remembered),
        ("unavailable", stats.unavailable),
        ("lost", stats.lost),
        ("refused", stats.refused),
        ("skipped", stats.skipped),
        ("shed", stats.shed),
        ("failed_open", stats.failed_open),
        ("failed_closed", stats.failed_closed),
        ("fallback", stats.fallback),
    ]
}

fn store(stats: &Stats, text: &mut Text) {
    text.metric(
        "tollgate_store_calls_total",
        "counter",
        "Calls on the store by how they were answered.",
    );
    for (outcome, count) in store_calls(stats) {
        text.value("tollgate_store_calls_total", &[("outcome", outcome)], count);
    }
    text.metric(
        "tollgate_breaker_turns_total",
        "counter",
        "Times a breaker in front of the store opened or closed.",
    );
    for (turn, count) in [("opened", stats.opened), ("closed", stats.closed)] {
        text.value("tollgate_breaker_turns_total", &[("turn", turn)], count);
    }
}

/// Writes the figures that the store reports.
fn figures(figures: &[Figure], text: &mut Text) {
    for figure in figures {
        let name = format!("tollgate_store_{}", figure.name);
        text.metric(&name, if figure.may_fall { "gauge" } else { "counter" }, figure.help);
        text.value(&name, &[], figure.value);
    }
}

fn ports(observer: &Observer, text: &mut Text) {
    let counts = Protocol::ALL.map(|protocol| (protocol, observer.port(protocol).counts()));
    text.metric("tollgate_connections_total", "counter", "Connections taken, by port.");
    for (protocol, (opened, ..)) in &counts {
        text.value("tollgate_connections_total", &[("port", protocol.name())], opened);
    }
    text.metric("tollgate_connections", "gauge", "Connections that are open, by port.");
    for (protocol, (_, open, ..)) in &counts {
        text.value("tollgate_connections", &[("port", protocol.name())], open);
    }
    text.metric(
        "tollgate_connections_refused_total",
        "counter",
        "Connections that were not taken, and requests without a right token, by port.",
    );
    for (protocol, (_, _, refused, _)) in &counts {
        text.value("tollgate_connections_refused_total", &[("port", protocol.name())], refused);
    }
    text.metric(
        "tollgate_wrong_requests_total",
        "counter",
        "Requests that made no sense, by port.",
    );
    for (protocol, (.., wrong)) in &counts {
        text.value("tollgate_wrong_requests_total", &[("port", protocol.name())], wrong);
    }
    text.metric(
        "tollgate_unknown_domains_total",
        "counter",
        "Descriptors of domains that have no rules: nobody limits them.",
    );
    text.value("tollgate_unknown_domains_total", &[], observer.unknown_domains());
    text.metric(
        "tollgate_request_seconds",
        "histogram",
        "How long requests took, by port; on resp, what came in one read.",
    );
    for protocol in Protocol::ALL {
        spans(observer, protocol, text);
    }
}

/// Only ports with TLS have a value.
fn certificates(observer: &Observer, text: &mut Text) {
    let name = "tollgate_certificate_expiry_timestamp_seconds";
    text.metric(name, "gauge", "When the TLS certificate expires, by port.");
    for protocol in Protocol::ALL {
        if let Some(expiry) = observer.port(protocol).certificate_expiry() {
            text.value(name, &[("port", protocol.name())], expiry);
        }
    }
}

fn spans(observer: &Observer, protocol: Protocol, text: &mut Text) {
    let (buckets, sum) = observer.port(protocol).spans.counts();
    let mut below = 0;
    for (most, count) in buckets {
        below += count;
        let most = if most == u64::MAX { "+Inf".to_owned() } else { seconds(most).to_string() };
        let labels = [("port", protocol.name()), ("le", &most)];
        text.value("tollgate_request_seconds_bucket", &labels, below);
    }
    text.value("tollgate_request_seconds_sum", &[("port", protocol.name())], seconds(sum));
    text.value("tollgate_request_seconds_count", &[("port", protocol.name())], below);
}

fn seconds(micros: u64) -> Seconds {
    Seconds(Duration::from_micros(micros))
}

fn memory(text: &mut Text) {
    if let Some(bytes) = resident() {
        text.metric("process_resident_memory_bytes", "gauge", "Memory that the process takes.");
        text.value("process_resident_memory_bytes", &[], bytes);
    }
}

/// The memory of the process in bytes, on systems that tell it in `/proc`.
pub(super) fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
