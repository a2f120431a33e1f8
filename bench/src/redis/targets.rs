//! The targets for Redis, and whether this run met them.

use super::Results;
use super::contenders::{Kind, Scene};
use super::rounds::Row;
use crate::targets::Target;

/// Part of redis-benchmark's speed with as many calls in flight.
const PART: f64 = 0.85;

/// How much faster a remembered denial is.
const TIMES: f64 = 100.0;

pub(crate) fn check(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for (id, scene, what) in
        [("gcra", Scene::Hot, "hot key"), ("gcra-keys", Scene::Keys, "10,000 keys")]
    {
        let benchmark = best(results, scene);
        targets.extend(results.row(id).zip(benchmark).map(|(row, best)| speed(row, best, what)));
    }
    let mut counted: Vec<_> = ["gcra", "gcra-keys", "denied"].map(|id| (id, "round trips")).into();
    counted.push(("policy", "commands"));
    targets.extend(counted.iter().filter_map(|(id, what)| Some(one(results.row(id)?, what))));
    for (denied, remembered, callers) in
        [("denied", "remembered", "64 callers"), ("one-denied", "one-remembered", "one caller")]
    {
        let rows = results.row(denied).zip(results.row(remembered));
        targets.extend(rows.map(|(denied, remembered)| faster(denied, remembered, callers)));
    }
    targets
}

/// The fastest redis-benchmark of a scene: all have the same number of commands in flight, so all
/// are fair, and the fastest shows most of the server.
pub(crate) fn best(results: &Results, scene: Scene) -> Option<&Row> {
    let rows = results.rows.iter().filter(|row| row.scene == scene && row.kind == Kind::Yardstick);
    rows.max_by(|a, b| a.rate.total_cmp(&b.rate))
}

fn speed(row: &Row, best: &Row, what: &str) -> Target {
    let part = row.rate / best.rate;
    Target {
        goal: format!("{}, {what}: at least 85 % of the fastest redis-benchmark", row.title),
        reached: format!("{:.0} %", 100.0 * part),
        met: if part >= PART { Some(true) } else { (!row.disturbed).then_some(false) },
    }
}

fn one(row: &Row, what: &str) -> Target {
    let each = if row.scene == Scene::Keys { " of 10,000 keys" } else { "" };
    let scene = if row.scene == Scene::Denied { ", denied" } else { "" };
    Target {
        goal: format!("{}{each}{scene}: 1.0 {what} per hit", row.title),
        reached: format!("{:.3}", row.sent),
        met: Some((row.sent - 1.0).abs() < 0.001),
    }
}

fn faster(denied: &Row, remembered: &Row, callers: &str) -> Target {
    let times = remembered.rate / denied.rate;
    Target {
        goal: format!("a denied hot key, {callers}: at least 100x faster when remembered"),
        reached: format!("{times:.0}x"),
        met: Some(times >= TIMES),
    }
}
