//! The limits of a replica: those that it decides, and those that only other replicas use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::shared::Place;
use tollgate::{Error, Limit, Timestamp};

use super::counts::Cell;
use super::entry::Entry;
use super::lock;
use super::slot::{Kind, Slot};

/// The counter of a limit. It is the same on every replica, whatever quota the limit has there.
#[derive(Debug)]
pub(crate) struct Held {
    /// Identifies the limit in hashes of keys.
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    /// The prefix of its keys, as [`Place::prefix`] has it.
    pub(crate) prefix: Box<[u8]>,
    /// The number of process starts that may have admitted units that still count, including this
    /// one. Updated with every tick.
    pub(crate) starts: AtomicU64,
    /// The longest life of its counts, in microseconds.
    pub(crate) longest: AtomicU64,
    /// The rules with which it was last prepared here; `None` if only others use it.
    last: Mutex<Option<Rules>>,
    /// The entry that unknown keys share while there is no room for them.
    pub(crate) overflow: Mutex<Option<Entry>>,
    /// Whether `overflow` exists. While it matters, unknown keys stay with it.
    pub(crate) overflows: AtomicBool,
}

impl Held {
    fn new(number: u64, kind: Kind, prefix: &[u8]) -> Held {
        Held {
            number,
            kind,
            prefix: prefix.into(),
            starts: AtomicU64::new(1),
            longest: AtomicU64::new(0),
            last: Mutex::new(None),
            overflow: Mutex::new(None),
            overflows: AtomicBool::new(false),
        }
    }

    /// The rules with which it was last prepared here.
    pub(crate) fn rules(&self) -> Option<Rules> {
        *lock(&self.last)
    }

    /// Notes that slots of this length are in use.
    pub(crate) fn note_span(&self, span: u64) {
        let longest = span.saturating_add(self.kind.life(span));
        self.longest.fetch_max(longest, Ordering::Relaxed);
    }
}

/// The parts of a limit that decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) machine: AnyMachine,
    /// The length of its slots in microseconds.
    pub(crate) span: u64,
    /// How far back its units matter, in microseconds.
    pub(crate) reach: u64,
}

impl Rules {
    /// The level after one more slot has been added to a bucket that is drained at `carry`, as the
    /// time at which it is then drained.
    pub(crate) fn fold(&self, carry: Timestamp, cell: &Cell) -> Timestamp {
        let at = cell.slot.last();
        let mut state = self.machine.drained_at(carry, at);
        let _ = self.machine.apply(&mut state, at, Op::Charge(cell.count.units()));
        self.machine.fresh_at(state.as_ref()).unwrap_or(carry).max(carry)
    }
}

/// A limit as a replica holds it.
///
/// See [`Replica`](super::Replica).
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) held: Arc<Held>,
    pub(crate) rules: Rules,
}

impl Prepared {
    /// The slot of a time.
    pub(crate) fn slot(&self, time: Timestamp) -> Slot {
        Slot::at(time, self.rules.span)
    }
}

/// All limits by their place.
#[derive(Debug, Default)]
pub(crate) struct Limits(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_place: HashMap<(Kind, Box<[u8]>), Arc<Held>>,
    next: u64,
}

impl Known {
    /// The limit at a place. Adds it if it is new.
    fn entry(&mut self, place: (Kind, Box<[u8]>)) -> Arc<Held> {
        let held = self.by_place.entry(place).or_insert_with_key(|(kind, prefix)| {
            let number = self.next;
            self.next += 1;
            Arc::new(Held::new(number, *kind, prefix))
        });
        Arc::clone(held)
    }
}

impl Limits {
    /// Accepts a limit. A new one is refused if there are `max` already.
    pub(crate) fn prepare(
        &self,
        namespace: &str,
        limit: &Limit,
        max: usize,
    ) -> Result<Prepared, Error> {
        let kind = Kind::of(limit)?;
        let place = (kind, Place::new(namespace, limit).prefix().into());
        let mut known = self.known();
        if known.by_place.len() >= max && !known.by_place.contains_key(&place) {
            return Err(Error::request(format!(
                "{max} limits: the store holds no more of them (max_limits), and all are in use"
            )));
        }
        let held = known.entry(place);
        drop(known);
        let rules = Rules {
            machine: AnyMachine::new(limit),
            span: kind.span(limit),
            reach: kind.reach(limit),
        };
        *lock(&held.last) = Some(rules);
        held.note_span(rules.span);
        Ok(Prepared { held, rules })
    }

    /// The limit at a place that another replica has named. Replicas have their own bounds, so no
    /// bound applies here: a limit that is left out would admit too much.
    pub(crate) fn held(&self, kind: Kind, prefix: &[u8]) -> Arc<Held> {
        self.known().entry((kind, prefix.into()))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Held>> {
        let mut all: Vec<_> = self.known().by_place.values().cloned().collect();
        all.sort_unstable_by_key(|held| held.number);
        all
    }

    /// Forgets limits that have neither a limiter nor keys.
    pub(crate) fn forget_unused(&self) {
        let unused = |held: &Arc<Held>| {
            Arc::strong_count(held) == 1 && !held.overflows.load(Ordering::Relaxed)
        };
        self.known().by_place.retain(|_, held| !unused(held));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_limit_is_refused_at_the_bound_until_an_unused_one_is_forgotten() {
        let limits = Limits::default();
        let limit = Limit::per_hour(5).build().unwrap();
        let prepare = |namespace: &str| limits.prepare(namespace, &limit, 2);
        let held = prepare("a").unwrap();
        drop(prepare("b").unwrap());
        let refused = prepare("c").unwrap_err().to_string();
        assert!(refused.contains("2 limits") && refused.contains("max_limits"), "{refused}");
        assert!(Arc::ptr_eq(&prepare("a").unwrap().held, &held.held), "a known one is accepted");
        limits.forget_unused();
        assert!(prepare("c").is_ok());
    }
}
