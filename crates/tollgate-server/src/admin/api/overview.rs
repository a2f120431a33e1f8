//! `/api/v1/overview`: the state of the server and its last 15 minutes.

use serde_json::{Map, Value, json};

use super::super::{Admin, metrics};
use super::store;
use crate::observe::{Counts, HISTORY_SECONDS, Latency, Protocol};
use crate::seconds::unix_now;
use crate::service::{Service, Verdict};

/// The names of [`Counts`], in their order.
fn names() -> impl Iterator<Item = &'static str> {
    Verdict::ALL.into_iter().map(Verdict::name).chain(["errors"])
}

fn object(counts: Counts) -> Map<String, Value> {
    names().map(str::to_owned).zip(counts.into_iter().map(Value::from)).collect()
}

/// The state, and the counts of every second.
pub(super) fn with_history(admin: &Admin) -> Value {
    let mut overview = now(admin);
    let history = admin.service.observer().history();
    let column = |index: usize| history.counts.iter().map(|counts| counts[index]).collect();
    let mut columns: Map<String, Value> =
        names().enumerate().map(|(index, name)| (name.to_owned(), column(index))).collect();
    columns.insert("newest".to_owned(), history.newest.into());
    columns.insert("most_seconds".to_owned(), HISTORY_SECONDS.into());
    overview["history"] = columns.into();
    overview
}

/// The state, and the counts of the newest second.
pub(super) fn with_newest(admin: &Admin) -> Value {
    let mut overview = now(admin);
    let (at, counts) = admin.service.observer().newest();
    let mut second = object(counts);
    second.insert("at".to_owned(), at.into());
    overview["second"] = second.into();
    overview
}

fn now(admin: &Admin) -> Value {
    let Admin { service, about, .. } = admin;
    let now = unix_now();
    let reloads = service.reloads().status();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "node": about.node,
        "now": now,
        "started": about.started,
        "uptime_seconds": now.saturating_sub(about.started),
        "memory_bytes": metrics::resident(),
        "totals": object(totals(service)),
        "ports": Protocol::ALL.map(|protocol| port(service, protocol)),
        "store": store::health(admin),
        "config": {
            "in_force": reloads.in_force(),
            "reloads": reloads,
        },
    })
}

fn totals(service: &Service) -> Counts {
    let mut totals = Counts::default();
    for rule in service.observer().rules() {
        let verdicts = Verdict::ALL.map(|verdict| rule.count(verdict));
        for (total, count) in totals.iter_mut().zip(verdicts.into_iter().chain([rule.errors()])) {
            *total += count;
        }
    }
    totals
}

fn port(service: &Service, protocol: Protocol) -> Value {
    let stats = service.observer().port(protocol);
    let (opened, open, refused, wrong) = stats.counts();
    let Latency { requests, p50, p99 } = service.observer().latency(protocol);
    json!({
        "port": protocol.name(),
        "connections": open,
        "connections_total": opened,
        "refused_total": refused,
        "wrong_requests_total": wrong,
        "certificate_expiry": stats.certificate_expiry(),
        // Of the last ten seconds; the times are upper ends of powers of two.
        "requests": requests,
        "p50_us": p50,
        "p99_us": p99,
    })
}
