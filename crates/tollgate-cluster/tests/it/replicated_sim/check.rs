//! The bound, compared with what was admitted.
//!
//! Take any group of process starts, and an admitted hit of one of them at time `t`. When it was
//! admitted, the machine of that replica had all units of the group except those that it did not
//! know. These were admitted within the last `D`, the age of the oldest of them, or are lost:
//! admitted by a process that crashed before it sent them. Let `A(x)` be the most units that the
//! group is offered in any span `x`, and `U` the lost units:
//!
//! - A window holds at most `L + A(D) + U` after each admission, hence always. Windows follow the
//!   clocks of the replicas: within `e` of its edges the clocks disagree, so a window of true time
//!   has up to `2 A(e)` more.
//! - A moving window holds the same in any period of true time, and `A(2e)` more: the units of a
//!   slower clock leave early by that much.
//! - The level of a bucket is at most `B + A(D) + U`, and `2e` at its rate more.
//!
//! The group of all starts gives the bound without a split. If a fleet is split into `G` groups the
//! sum over them is `(G-1) L + A(D) + U` too much, with `D` within the groups. A single start knows
//! all of its own units: `S` starts admit at most `S L`. So the published bound is the smallest of
//! the sums over all ways to group.

use std::collections::{HashMap, HashSet};

use tollgate::{Algorithm, Limit};
use tollgate_cluster::replicated::{Actor, OnMissing};

use super::draw::{Draw, Faults};
use super::world::{Hit, Ledger};

/// The results of a world.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) denied: usize,
    /// The most units that were admitted beyond the limit.
    pub(super) over: u64,
    /// Parts with counts on which all replicas agreed at the end.
    pub(super) agreed_on: usize,
    /// Units that were offered while all nodes had noticed a split and kept to their rule for it.
    pub(super) offered_in_split: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Fixed,
    Sliding,
    Moving,
    Bucket,
}

fn shape(limit: &Limit) -> Shape {
    match limit.algorithm() {
        Algorithm::FixedWindow => Shape::Fixed,
        Algorithm::SlidingWindow => Shape::Sliding,
        Algorithm::MovingWindow => Shape::Moving,
        _ => Shape::Bucket,
    }
}

/// Whether a unit of one time can matter at another, by the nodes' clocks.
pub(super) fn matters(limit: &Limit, span: u64, then: u64, now: u64) -> bool {
    let period = limit.period().as_micros() as u64;
    match shape(limit) {
        Shape::Fixed => then / span == now / span,
        Shape::Sliding => then / span == now / span || then / span + 1 == now / span,
        // Clocks differ by much less than a period.
        Shape::Moving => then + 2 * period > now,
        Shape::Bucket => true,
    }
}

pub(super) fn all(draw: &Draw, ledger: &Ledger) -> Result<Outcome, String> {
    let mut outcome = Outcome {
        denied: ledger.hits.iter().filter(|hit| !hit.admitted).count(),
        ..Outcome::default()
    };
    outcome.over = group(draw, ledger, "all", |_| true)?;
    for (_, _, sides) in &draw.splits {
        for side in [0, 1] {
            group(draw, ledger, "a side of a split", |hit| sides >> hit.node & 1 == side)?;
        }
    }
    let actors: HashSet<Actor> = ledger.hits.iter().map(|hit| hit.actor).collect();
    for actor in actors {
        group(draw, ledger, "a single start", |hit| hit.actor == actor)?;
    }
    denials(draw, ledger)?;
    outcome.offered_in_split = missing_rule(draw, ledger)?;
    outcome.agreed_on = agreement(ledger)?;
    restarted_nodes_are_not_missing(draw, ledger)?;
    Ok(outcome)
}

/// All replicas that are alive have the same counts.
fn agreement(ledger: &Ledger) -> Result<usize, String> {
    let [first, rest @ ..] = &ledger.digests[..] else { return Ok(0) };
    if let Some(other) = rest.iter().position(|digests| digests != first) {
        return Err(format!("replicas 0 and {} do not agree in the end", other + 1));
    }
    Ok(first.iter().filter(|digest| **digest != 0).count())
}

/// Checks the rules `closed` and `share`: from three heartbeats after a split until its end,
/// nothing passes, or each node keeps to its share. Returns how many units were offered then.
fn missing_rule(draw: &Draw, ledger: &Ledger) -> Result<u64, String> {
    let rule = draw.settings.on_missing;
    // A node that starts while others cannot be heard does not know them.
    if rule == OnMissing::GoOn || !draw.crashes.is_empty() {
        return Ok(0);
    }
    let noticed = draw.delay + 3 * draw.settings.heartbeat.as_micros() as u64;
    let period = draw.limit.period().as_micros() as u64;
    let most = match (rule, shape(&draw.limit)) {
        (OnMissing::Closed, _) => 0,
        (_, Shape::Bucket) => u64::MAX,
        _ => draw.limit.burst().max(draw.nodes as u64),
    };
    let mut offered = 0;
    for (from, until, sides) in &draw.splits {
        let all = (1 << draw.nodes) - 1;
        if sides & all == 0 || sides & all == all {
            continue;
        }
        let mut windows: HashMap<u64, u64> = HashMap::new();
        for hit in ledger.hits.iter().filter(|hit| (from + noticed..*until).contains(&hit.at)) {
            offered += hit.cost;
            let units = windows.entry(hit.local / period).or_default();
            *units += if hit.admitted { hit.cost } else { 0 };
            if *units > most {
                return Err(format!("{rule:?}: {units} units in a split, at most {most}: {hit:?}"));
            }
        }
    }
    Ok(offered)
}

/// In the end all nodes run, so no node with a name is missing. Its name must have been heard
/// before the crash, which a node that started just then or a lossy network cannot guarantee.
fn restarted_nodes_are_not_missing(draw: &Draw, ledger: &Ledger) -> Result<(), String> {
    let heard = draw.loss == 0 && draw.splits.is_empty() && draw.crashes.len() == 1;
    if draw.named && heard && ledger.missing.iter().any(|missing| *missing > 0) {
        return Err(format!("nodes that run are missing: {:?}", ledger.missing));
    }
    Ok(())
}

/// Whether the actor of an admitted hit has crashed, and no actor that is alive in the end has
/// heard of the hit.
fn is_lost(ledger: &Ledger, hit: &Hit) -> bool {
    let heard = |who: &Actor| {
        let units = ledger.heard.get(&(*who, hit.actor, hit.local / ledger.span));
        *who == hit.actor || units.is_some_and(|units| *units >= hit.total)
    };
    !ledger.alive.iter().any(heard)
}

/// The most units that were offered in any closed span of that length.
fn offered(hits: &[&Hit], span: u64) -> u64 {
    let (mut most, mut sum, mut first) = (0, 0, 0);
    for hit in hits {
        sum += hit.cost;
        while hits[first].at + span < hit.at {
            sum -= hits[first].cost;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// The usage of the limit by the true order of hits, in parts of 1/period of a unit.
struct Truth<'a> {
    shape: Shape,
    limit: &'a Limit,
    period: u64,
    admitted: Vec<&'a Hit>,
    level: u128,
    at: u64,
}

impl<'a> Truth<'a> {
    fn new(limit: &'a Limit) -> Truth<'a> {
        let period = limit.period().as_micros() as u64;
        Truth { shape: shape(limit), limit, period, admitted: Vec::new(), level: 0, at: 0 }
    }

    fn admit(&mut self, hit: &'a Hit) {
        self.level = self.level_at(hit.at) + self.parts(hit.cost);
        self.at = hit.at;
        self.admitted.push(hit);
    }

    fn parts(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.period)
    }

    fn level_at(&self, at: u64) -> u128 {
        let sunk = u128::from(at - self.at) * u128::from(self.limit.quota());
        self.level.saturating_sub(sunk)
    }

    fn units(&self, is_in: impl Fn(&Hit) -> bool) -> u128 {
        self.parts(self.admitted.iter().filter(|hit| is_in(hit)).map(|hit| hit.cost).sum())
    }

    /// The usage when a node whose clock reads `local` asks at `at`. Moving windows are `more`
    /// microseconds longer.
    fn used(&self, at: u64, local: u64, more: u64) -> u128 {
        let Truth { period, .. } = *self;
        let window = local / period;
        match self.shape {
            Shape::Fixed => self.units(|hit| hit.local / period == window),
            Shape::Sliding => {
                let left = u128::from((window + 1) * period - local);
                let before = self.units(|hit| hit.local / period + 1 == window);
                before / u128::from(period) * left + self.units(|hit| hit.local / period == window)
            }
            Shape::Moving => self.units(|hit| hit.at + period + more > at),
            Shape::Bucket => self.level_at(at),
        }
    }

    fn capacity(&self) -> u128 {
        self.parts(self.limit.burst())
    }
}

/// Checks the bound for a group of starts. Returns the most units beyond the limit.
fn group(
    draw: &Draw,
    ledger: &Ledger,
    name: &str,
    is_in: impl Fn(&Hit) -> bool,
) -> Result<u64, String> {
    let hits: Vec<&Hit> = ledger.hits.iter().filter(|hit| is_in(hit)).collect();
    let lost = hits.iter().filter(|hit| hit.admitted && is_lost(ledger, hit));
    let lost: u64 = lost.map(|hit| hit.cost).sum();
    let mut truth = Truth::new(&draw.limit);
    let mut over = 0;
    for hit in hits.iter().filter(|hit| hit.admitted) {
        truth.admit(hit);
        let unseen = hit.unseen.iter().map(|place| &ledger.hits[*place]);
        let oldest = unseen
            .filter(|other| is_in(other) && !is_lost(ledger, other))
            .map(|other| other.at)
            .min();
        let age = oldest.map(|oldest| hit.at - oldest);
        let promised = draw.settings.flush.as_micros() as u64 + draw.delay;
        if draw.faults == Faults::None && age.is_some_and(|age| age > promised) {
            return Err(format!("a hit is unknown for {age:?}, promised are {promised}: {hit:?}"));
        }
        let unknown = age.map_or(0, |age| offered(&hits, age));
        let skew = match truth.shape {
            Shape::Fixed | Shape::Sliding => 0,
            Shape::Moving => truth.parts(offered(&hits, 2 * draw.skew)),
            Shape::Bucket => u128::from(2 * draw.skew * draw.limit.quota()),
        };
        let skew = if draw.skew == 0 { 0 } else { skew };
        let used = truth.used(hit.at, hit.local, 0);
        let bound = truth.capacity() + truth.parts(unknown + lost) + skew;
        if used > bound {
            return Err(format!(
                "{name}: {} units in use, bound {} with {unknown} unknown for {age:?}, {lost} lost: {hit:?}",
                used / u128::from(truth.period),
                bound / u128::from(truth.period)
            ));
        }
        let beyond = used.saturating_sub(truth.capacity()).div_ceil(u128::from(truth.period));
        over = over.max(beyond as u64);
    }
    Ok(over)
}

/// No hit is denied because of units that were never admitted or belong elsewhere. A moving window
/// and a bucket may treat a unit as up to one slot younger.
fn denials(draw: &Draw, ledger: &Ledger) -> Result<(), String> {
    let mut truth = Truth::new(&draw.limit);
    let late = ledger.span + 2 * draw.skew;
    for hit in &ledger.hits {
        if hit.admitted {
            truth.admit(hit);
        }
        if hit.admitted || !hit.ready || hit.restricted {
            continue;
        }
        let rounding = hit.at / ledger.span + 2;
        let late_parts = match truth.shape {
            Shape::Bucket => u128::from(late + rounding) * u128::from(draw.limit.quota()),
            _ => 0,
        };
        let wanted = truth.used(hit.at, hit.local, late) + truth.parts(hit.cost) + late_parts;
        if wanted <= truth.capacity() {
            let units = wanted / u128::from(truth.period);
            return Err(format!("refused at {units} units with its own: {hit:?}"));
        }
    }
    Ok(())
}
