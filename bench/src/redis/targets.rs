//! The targets for Redis, and whether this run met them.

use super::Results;
use super::contenders::{Kind, Scene};
use super::rounds::Row;
use crate::targets::Target;

/// Part of the speed of INCR through the same client.
const PART: f64 = 0.7;

pub(crate) fn check(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    let pair = |one, other| results.row(one).zip(results.row(other));
    targets.extend(pair("gcra-keys", "incr-keys").map(|(row, incr)| part(row, incr)));
    for (batched, apart, what, times) in [
        ("gcra-keys", "gcra-keys-apart", "64 callers, 1,000 keys", 3.0),
        ("gcra", "gcra-apart", "64 callers, hot key", 5.0),
        ("cluster-keys", "cluster-keys-apart", "64 callers, cluster of three, 1,000 keys", 2.0),
        ("cluster-hot", "cluster-hot-apart", "64 callers, cluster of three, hot key", 5.0),
        ("one-gcra", "one-gcra-apart", "one caller", 1.0),
    ] {
        let rows = pair(batched, apart);
        targets.extend(rows.map(|(row, apart)| together(row, apart, what, times)));
    }
    targets.extend(["one-gcra", "policy"].iter().filter_map(|id| Some(one(results.row(id)?))));
    // Many callers who ask about one denied key share a call, so asking is cheap for them.
    for (denied, remembered, callers, times) in [
        ("denied", "remembered", "64 callers", 10.0),
        ("one-denied", "one-remembered", "one caller", 100.0),
    ] {
        let rows = pair(denied, remembered);
        targets.extend(rows.map(|(denied, remembered)| faster(denied, remembered, callers, times)));
    }
    targets
}

/// The fastest redis-benchmark of a scene: all have the same number of commands in flight.
pub(crate) fn best(results: &Results, scene: Scene) -> Option<&Row> {
    let rows = results.rows.iter().filter(|row| row.scene == scene && row.kind == Kind::Yardstick);
    rows.max_by(|a, b| a.rate.total_cmp(&b.rate))
}

fn part(row: &Row, incr: &Row) -> Target {
    let part = row.rate / incr.rate;
    Target {
        goal: "64 callers, 1,000 keys: at least 70 % of INCR through the same client".to_owned(),
        reached: format!("{:.0} %", 100.0 * part),
        met: judged(part >= PART, &[row, incr]),
    }
}

fn together(row: &Row, apart: &Row, what: &str, times: f64) -> Target {
    let reached = row.rate / apart.rate;
    Target {
        goal: format!("{what}: at least {times:.0}x a call for each hit"),
        reached: format!("{reached:.2}x"),
        met: judged(reached >= times, &[row, apart]),
    }
}

/// A target that was missed on a busy machine was not measured.
fn judged(met: bool, rows: &[&Row]) -> Option<bool> {
    if met { Some(true) } else { (!rows.iter().any(|row| row.disturbed)).then_some(false) }
}

fn one(row: &Row) -> Target {
    Target {
        goal: format!("{}: 1.0 commands per hit", row.title),
        reached: format!("{:.3}", row.sent),
        met: Some((row.sent - 1.0).abs() < 0.001),
    }
}

fn faster(denied: &Row, remembered: &Row, callers: &str, times: f64) -> Target {
    let reached = remembered.rate / denied.rate;
    Target {
        goal: format!("a denied hot key, {callers}: at least {times:.0}x faster when remembered"),
        reached: format!("{reached:.0}x"),
        met: Some(reached >= times),
    }
}
