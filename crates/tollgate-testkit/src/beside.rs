//! One limit of a store and its definition, side by side: every answer must be the same in every
//! field.

use std::time::Duration;

use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::shared::{Ask, SharedStore};
use tollgate::{Key, Limit, Outcome, Timestamp};

use crate::ground::Ground;
use crate::model::same;
use crate::subject::Subject;

/// Asks the store directly, without what a limiter would remember.
#[derive(Debug)]
pub(crate) struct Straight<'g, 's, S: Subject> {
    ground: &'g Ground<'s, S>,
    prepared: <S::Store as SharedStore>::Prepared,
    pub(crate) limit: Limit,
}

impl<'g, 's, S: Subject> Straight<'g, 's, S> {
    /// `None` if the store does not support the limit, and need not.
    pub(crate) fn new(ground: &'g Ground<'s, S>, limit: &Limit) -> Option<Self> {
        ground.limited(limit)?;
        let prepared = ground.store.prepare(&ground.namespace, limit);
        let prepared = prepared.unwrap_or_else(|error| panic!("{limit}: prepared twice: {error}"));
        Some(Straight { ground, prepared, limit: limit.clone() })
    }

    pub(crate) fn apply(&self, now: Timestamp, key: impl Key, op: Op) -> Outcome {
        let answer = key.with_key(|key| {
            let ask = Ask { prepared: &self.prepared, key, op };
            self.ground.store.ask_each(&[ask], Some(now), Duration::MAX)
        });
        match self.ground.run(answer).as_deref() {
            Ok([decision]) => *decision,
            other => panic!("{}: {op:?} at {now}: {other:?}", self.limit),
        }
    }
}

/// A key of a store, and its state by the definition.
#[derive(Debug)]
pub(crate) struct Beside<'g, 's, S: Subject, K: Key> {
    store: Straight<'g, 's, S>,
    key: K,
    machine: AnyMachine,
    state: Option<AnyState>,
}

impl<'g, 's, S: Subject, K: Key> Beside<'g, 's, S, K> {
    pub(crate) fn new(ground: &'g Ground<'s, S>, limit: &Limit, key: K) -> Option<Self> {
        let store = Straight::new(ground, limit)?;
        Some(Beside { store, key, machine: AnyMachine::new(limit), state: None })
    }

    /// Whether the store can count this far.
    pub(crate) fn counts(&self, units: u64) -> bool {
        units <= self.store.ground.subject.counts_to(&self.store.limit)
    }

    pub(crate) fn apply(&mut self, now: Timestamp, op: Op) -> Outcome {
        let got = self.store.apply(now, &self.key, op);
        let wanted = self.machine.apply(&mut self.state, now, op);
        if let Err(difference) = same(&[got], &[wanted]) {
            panic!("{}: {op:?} at {now}\n{difference}", self.store.limit);
        }
        wanted
    }
}
