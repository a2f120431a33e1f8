//! The goals of this project, and whether this run met them.

use crate::contenders::{ATOMIC, ATOMIC_EACH, GOVERNOR, MEMORY};
use crate::results::{Results, Row};
use crate::scenarios::Scenario;

/// The longest hit that is still no stall, in nanoseconds.
const STALL: f64 = 500_000.0;

/// A goal and the result.
pub(crate) struct Target {
    pub(crate) goal: String,
    pub(crate) reached: String,
    /// `None` if the machine was too restless to tell, or both are level.
    pub(crate) met: Option<bool>,
}

impl Target {
    pub(crate) fn mark(&self) -> &'static str {
        match self.met {
            Some(true) => "pass",
            Some(false) => "MISS",
            None => "unclear",
        }
    }
}

/// All goals for which there are figures.
pub(crate) fn check(results: &Results) -> Vec<Target> {
    use Scenario::{Hot, Uniform, UniformByTwo};
    let faster = [
        (ATOMIC, Hot, 2.5),
        (ATOMIC, Uniform, 5.0),
        (ATOMIC, UniformByTwo, 5.0),
        (ATOMIC_EACH, Uniform, 10.0),
        (MEMORY, Hot, 1.5),
        (MEMORY, Uniform, 2.0),
        (MEMORY, UniformByTwo, 1.6),
    ];
    let smaller = [(ATOMIC, 40.0), (MEMORY, 90.0)];
    let mut targets: Vec<Target> = Vec::new();
    targets.extend(faster.iter().filter_map(|(id, scenario, times)| {
        at_least(results.row(id)?, results.row(GOVERNOR)?, *scenario, *times)
    }));
    targets.extend(Scenario::ALL.iter().filter_map(|scenario| unbeaten(results, *scenario)));
    targets.extend(smaller.iter().filter_map(|(id, bytes)| at_most(results.row(id)?, *bytes)));
    for row in [ATOMIC, MEMORY].iter().filter_map(|id| results.row(id)) {
        let insert = row.insert.map(|tail| tail.longest_own);
        let churn = row.churn.map(|churn| churn.longest_own);
        let control = results.control.longest_own;
        targets.extend(no_stall(row, "1 M keys are inserted", insert, control));
        targets.extend(no_stall(row, "1 M stale keys are removed", churn, control));
    }
    targets
}

fn at_least(row: &Row, yardstick: &Row, scenario: Scenario, times: f64) -> Option<Target> {
    let reached = yardstick.speed(scenario).nanos / row.speed(scenario).nanos;
    Some(Target {
        goal: format!("{}, {}: at least {times}x governor", row.spec.title, scenario.title()),
        reached: format!("{reached:.1}x"),
        met: Some(reached >= times),
    })
}

fn unbeaten(results: &Results, scenario: Scenario) -> Option<Target> {
    let nanos = |row: &&Row| row.speed(scenario).nanos;
    let peers = results.rows.iter().filter(|row| row.spec.is_peer());
    let best = peers.min_by(|a, b| nanos(a).total_cmp(&nanos(b)))?;
    let reached = nanos(&best) / nanos(&results.row(ATOMIC)?);
    Some(Target {
        goal: format!("no peer faster than Atomic, {}", scenario.title()),
        reached: format!("{reached:.1}x {}", best.spec.id),
        met: Some(reached >= 1.0),
    })
}

fn at_most(row: &Row, bytes: f64) -> Option<Target> {
    let reached = row.bytes?.rss;
    Some(Target {
        goal: format!("{}: at most {bytes} bytes per key", row.spec.title),
        reached: format!("{reached:.1}"),
        met: Some(reached <= bytes),
    })
}

/// If even the loop without calls was held up that long, a stall proves nothing.
fn no_stall(row: &Row, occasion: &str, longest: Option<f64>, control: f64) -> Option<Target> {
    let reached = longest?;
    Some(Target {
        goal: format!("{}: no hit over 0.5 ms while {occasion}", row.spec.title),
        reached: format!("{:.3} ms", reached / 1e6),
        met: if reached < STALL { Some(true) } else { (control < STALL).then_some(false) },
    })
}
