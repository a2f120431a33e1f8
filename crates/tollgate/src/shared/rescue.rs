//! The answer of a limiter if its store did not answer.

use super::SharedStore;
use super::asking::{LimiterParts, Terms};
use super::failure::OnFailure;
use crate::algorithm::{AnyMachine, Op};
use crate::error::Error;
use crate::key::{Key, KeyRef};
use crate::outcome::{Outcome, Source};
use crate::time::Timestamp;

impl<S: SharedStore> LimiterParts<S> {
    /// Returns the answer by the limiter's rule for failures. `None` means that the caller gets the
    /// error.
    pub(super) fn without_store<K: Key>(
        &self,
        error: &Error,
        terms: Terms,
        key: &K,
        op: Op,
    ) -> Option<Vec<Outcome>> {
        if !error.is_of_store() {
            return None;
        }
        let guard = self.store.guard();
        let now = terms.at.unwrap_or_else(|| guard.now());
        match (self.on_failure, op) {
            (OnFailure::Open, Op::Hit(_) | Op::Peek(_) | Op::Take(_)) => {
                guard.counters.failed_open.add();
                Some(self.open(now, op))
            }
            (OnFailure::Closed, Op::Hit(cost) | Op::Peek(cost) | Op::Take(cost)) => {
                guard.counters.failed_closed.add();
                Some(key.with_key(|key| self.closed(now, key, cost)))
            }
            (OnFailure::Local(_), Op::Hit(_) | Op::Peek(_) | Op::Take(_) | Op::Charge(_)) => {
                let fallback = self.fallback.as_ref()?;
                guard.counters.fallback.add();
                let decisions = key.with_key(|key| {
                    let decisions = match op {
                        Op::Hit(cost) => fallback.hit(key, terms.at, cost),
                        _ => fallback.each(key, terms.at, self.every(op)),
                    };
                    self.owe(terms, key, &decisions);
                    decisions
                });
                Some(key.with_key(|key| self.with_wait_for_store(decisions, key)))
            }
            _ => None,
        }
    }

    /// Allows every operation that a fresh key would allow.
    pub(super) fn open(&self, now: Timestamp, op: Op) -> Vec<Outcome> {
        let open = |machine: &AnyMachine| machine.apply(&mut None, now, op);
        self.machines.iter().map(|machine| open(machine).with_source(Source::FailOpen)).collect()
    }

    /// Denies a hit until the store is asked again.
    pub(super) fn closed(&self, now: Timestamp, key: KeyRef<'_>, cost: u64) -> Vec<Outcome> {
        let until = now.plus(self.store.guard().pause_left(self.lane(key)));
        let closed = |machine: &AnyMachine| {
            // A ban has no units, so no cost is above its capacity.
            let cost = if machine.is_ban() { 0 } else { cost };
            Outcome::closed(machine.capacity(), now, cost, until)
        };
        self.machines.iter().map(closed).collect()
    }

    /// Corrects denials of a cost above the local share but within the limit. Such a cost may pass
    /// when the store answers again, so its denial gets a wait.
    fn with_wait_for_store(&self, mut decisions: Vec<Outcome>, key: KeyRef<'_>) -> Vec<Outcome> {
        let pause = self.store.guard().pause_left(self.lane(key));
        for (decision, machine) in decisions.iter_mut().zip(&self.machines) {
            *decision = decision.not_beyond(machine.capacity(), decision.now().plus(pause));
        }
        decisions
    }

    /// Raises the usage in the fallback to that in the store. It never lowers the usage, even after
    /// a refund, because the store does not know the units that the fallback admitted alone.
    pub(super) fn warm(&self, key: KeyRef<'_>, at: Option<Timestamp>, decisions: &[Outcome]) {
        if let Some(fallback) = &self.fallback {
            fallback.warm(key, at, decisions);
        }
    }
}
