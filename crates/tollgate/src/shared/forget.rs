//! After a call on the store, keeps, replaces or drops the remembered denials of the key.

use super::asking::{LimiterParts, Terms};
use super::denials::Epoch;
use super::{Guard, SharedStore};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::outcome::{Outcome, Source};
use crate::time::Timestamp;

/// A call that was sent to the store. If it is dropped without an answer, the store may have
/// changed the key, so the denials remembered for the key are dropped too.
pub(super) struct Call<'a, S: SharedStore, K: Key> {
    limits: &'a LimiterParts<S>,
    pub(super) terms: Terms,
    pub(super) key: &'a K,
    sent: Timestamp,
    /// The epoch of the key before the call was sent. `None` if the answer is not remembered.
    epoch: Option<Epoch>,
    ended: bool,
}

impl<'a, S: SharedStore, K: Key> Call<'a, S, K> {
    /// Creates a call whose denial may be remembered.
    pub(super) fn new(limits: &'a LimiterParts<S>, terms: Terms, key: &'a K) -> Self {
        let guard = limits.store.guard();
        let epoch = || key.with_key(|key| guard.denials.epoch(key, &limits.counters));
        let epoch = limits.remembers.then(epoch);
        Call::sent(limits, terms, key, guard.now(), epoch)
    }

    /// Creates a call that was sent at this time, by the clock of this process, in this epoch of
    /// the key.
    pub(super) fn sent(
        limits: &'a LimiterParts<S>,
        terms: Terms,
        key: &'a K,
        sent: Timestamp,
        epoch: Option<Epoch>,
    ) -> Self {
        Call { limits, terms, key, sent, epoch, ended: false }
    }

    /// Records the decision of the store on `cost`. A denial that changed nothing is remembered.
    /// Any other decision drops the denials remembered for the key.
    pub(super) fn decided(mut self, cost: u64, decisions: &[Outcome]) {
        self.ended = true;
        let Call { limits, terms, key, sent, epoch, .. } = &self;
        key.with_key(|key| {
            limits.warm(key, terms.at, decisions);
            let lookup = limits.denial_lookup(*terms, *sent, key, cost);
            match epoch {
                Some(epoch) if is_plain_denial(decisions) => {
                    limits.store.guard().denials.remember(&lookup, *epoch, decisions);
                }
                _ => limits.forget(key),
            }
        });
    }

    /// Records that the store returned an error.
    pub(super) fn failed(mut self, error: &Error) {
        // The call was certainly not executed if the store was unavailable. Then the remembered
        // denials still hold.
        self.ended = error.kind() == ErrorKind::Unavailable;
    }
}

impl<S: SharedStore, K: Key> Drop for Call<'_, S, K> {
    fn drop(&mut self) {
        if !self.ended {
            self.key.with_key(|key| self.limits.forget(key));
        }
    }
}

/// Returns whether the store itself denied the call and charged no limit.
fn is_plain_denial(decisions: &[Outcome]) -> bool {
    let unchanged = |d: &Outcome| d.source() == Source::Store && d.charged() == 0;
    let denies = match decisions.iter().find(|decision| decision.is_ban()) {
        Some(ban) => ban.banned(),
        None => decisions.iter().any(|decision| !decision.allowed()),
    };
    denies && decisions.iter().all(unchanged)
}

/// Drops all remembered denials, before and after a call that changes many keys.
pub(super) struct ForgetAll<'a>(&'a Guard);

impl<'a> ForgetAll<'a> {
    pub(super) fn new(guard: &'a Guard) -> Self {
        guard.denials.clear();
        ForgetAll(guard)
    }
}

impl Drop for ForgetAll<'_> {
    fn drop(&mut self) {
        self.0.denials.clear();
    }
}
