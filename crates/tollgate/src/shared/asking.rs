//! The path of a call on a shared store. First the remembered denials are searched, then the store
//! is called through its guard, and if that fails, the limiter applies its rule for failures.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::denials::{DenialLookup, Epoch};
use super::failure::{Fallback, OnFailure};
use super::forget::{Call, ForgetAll};
use super::limiter::decision;
use super::owed::Owed;
use super::{Ask, HitItem, Place, SharedStore};
use crate::algorithm::{Aging, AnyMachine, Op};
use crate::decision::Decision;
use crate::error::Error;
use crate::key::{Key, KeyRef, ShortKey};
use crate::limit::Limit;
use crate::outcome::{Outcome, Receipt, Source};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::together::Counter;
use crate::wire_refund::{last_of_each, refunds};

/// The parts of a limiter: its store, its prepared limits, and its rule for failures.
#[derive(Clone, Debug)]
pub(crate) struct LimiterParts<S: SharedStore> {
    pub(crate) store: S,
    namespace: Box<str>,
    pub(super) policy: Policy,
    pub(crate) prepared: Box<[S::Prepared]>,
    pub(super) machines: Box<[AnyMachine]>,
    /// The number that identifies these limits among remembered denials. Clones share it.
    number: u64,
    /// The counters of the limits: a hash of namespace and identity for each limit.
    pub(super) counters: Arc<[u64]>,
    /// The places of the counters, for receipts that leave the process.
    places: Arc<[Place]>,
    /// Whether denials may be remembered. False if denied hits change the state of a limit.
    pub(super) remembers: bool,
    pub(crate) deadline: Duration,
    pub(super) on_failure: OnFailure,
    pub(super) fallback: Option<Fallback>,
    /// The units that the fallback admitted and that the store was not yet charged for.
    pub(super) owed: Option<Arc<Owed>>,
}

/// The time and the deadline of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) at: Option<Timestamp>,
    pub(crate) deadline: Duration,
}

impl<S: SharedStore> LimiterParts<S> {
    pub(crate) fn new(store: &S, namespace: &str, policy: Policy) -> Result<Self, Error> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        policy.check_for_hits()?;
        let limits = policy.limits();
        let prepare = |limit| store.prepare(namespace, limit);
        let holds = |limit: &Limit| {
            let aging = AnyMachine::new(limit).aging();
            !matches!(aging, Aging::Attempts | Aging::Never) && !limit.charge_denied()
        };
        // While a key is banned, no other limit is charged or pushed. No other denial of a policy
        // with a ban is remembered, because the ban counts it.
        let remembers = match limits.last().and_then(|last| last.rate().ban) {
            Some(ban) => !ban.push,
            None => limits.iter().all(holds),
        };
        Ok(LimiterParts {
            store: store.clone(),
            namespace: namespace.into(),
            prepared: limits.iter().map(prepare).collect::<Result<_, _>>()?,
            machines: limits.iter().map(AnyMachine::new).collect(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            counters: limits.iter().map(|limit| counter(namespace, limit)).collect(),
            places: limits.iter().map(|limit| Place::new(namespace, limit)).collect(),
            remembers: store.guard().denials.any() && remembers,
            deadline: store.guard().deadline(),
            on_failure: OnFailure::Error,
            fallback: None,
            owed: None,
            policy,
        })
    }

    /// Returns the identity of the counter of each limit.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter<'_>> {
        self.policy.limits().iter().map(|limit| Counter { namespace: &self.namespace, limit })
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn on_failure(mut self, on_failure: OnFailure) -> Result<Self, Error> {
        self.fallback = match on_failure {
            OnFailure::Local(share) => {
                let store = self.store.guard().fallback();
                Some(Fallback::new(store, &self.namespace, self.policy.limits(), share)?)
            }
            OnFailure::Error | OnFailure::Open | OnFailure::Closed => None,
        };
        let owes = self.fallback.is_some() && self.store.guard().charges_local;
        self.owed = owes.then(|| Owed::new(&self.machines));
        self.on_failure = on_failure;
        Ok(self)
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms { at: None, deadline: self.deadline }
    }

    /// Hits all limits or none.
    #[inline]
    pub(crate) async fn hit<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        cost: u64,
    ) -> Result<Decision, Error> {
        if let Some(outcome) = self.hit_now(terms, key, cost) {
            return Ok(outcome.into());
        }
        // Calls that may wait are in separate functions. Their futures are large, and creating them
        // takes longer than a hit on memory.
        match self.prepared[..] {
            [_] => self.hit_one(terms, key, cost).await.map(Decision::from),
            _ => decision(self.hit_several(terms, key, cost).await?),
        }
    }

    async fn hit_several<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        cost: u64,
    ) -> Result<Vec<Outcome>, Error> {
        let key = &ShortKey::of(key);
        let sent = self.store.guard().now();
        let known = key.with_key(|key| self.recall(&self.denial_lookup(terms, sent, key, cost)));
        match known {
            Ok(decisions) => Ok(decisions),
            Err(epoch) => self.hit_store(Call::sent(self, terms, key, sent, epoch), cost).await,
        }
    }

    async fn hit_one<K: Key>(&self, terms: Terms, key: &K, cost: u64) -> Result<Outcome, Error> {
        let key = &ShortKey::of(key);
        let guard = self.store.guard();
        let sent = guard.now();
        let mut epoch = None;
        if self.remembers {
            let recall = |key: KeyRef<'_>| {
                guard.denials.recall_one(&self.denial_lookup(terms, sent, key, cost))
            };
            match key.with_key(recall) {
                Ok(decision) => {
                    guard.counters.remembered.add();
                    return Ok(decision);
                }
                Err(now) => epoch = Some(now),
            }
        }
        let call = Call::sent(self, terms, key, sent, epoch);
        if !self.is_plain()
            && let Some(decision) = self.try_now(terms, key, Op::Hit(cost))
        {
            call.decided(cost, &[decision]);
            return Ok(decision);
        }
        one(&self.hit_store(call, cost).await?)
    }

    /// Hits a single limit if the store can answer without waiting and the guard need not do
    /// anything else. Otherwise returns `None`.
    #[inline]
    pub(crate) fn hit_now<K: Key + ?Sized>(
        &self,
        terms: Terms,
        key: &K,
        cost: u64,
    ) -> Option<Outcome> {
        if self.is_plain() { self.try_now(terms, key, Op::Hit(cost)) } else { None }
    }

    /// Returns whether a call only needs the store: no denials are remembered, and no fallback must
    /// follow the store's counts.
    fn is_plain(&self) -> bool {
        !self.store.guard().denials.any() && self.fallback.is_none()
    }

    /// Returns the answer of the store, if the store can answer without waiting.
    #[inline]
    fn try_now<K: Key + ?Sized>(&self, terms: Terms, key: &K, op: Op) -> Option<Outcome> {
        let [prepared] = &self.prepared[..] else { return None };
        let decision = key.with_key(|key| {
            let mut room = None;
            self.store.try_now(prepared, key.shorten(&mut room), op, terms.at)
        })?;
        self.store.guard().counters.answered.add();
        Some(decision)
    }

    async fn hit_store<K: Key>(
        &self,
        call: Call<'_, S, K>,
        cost: u64,
    ) -> Result<Vec<Outcome>, Error> {
        let (terms, key) = (call.terms, call.key);
        match self.send_hit(terms, key, cost).await {
            Ok(decisions) => {
                call.decided(cost, &decisions);
                Ok(decisions)
            }
            Err(error) => {
                call.failed(&error);
                self.without_store(&error, terms, key, Op::Hit(cost)).ok_or(error)
            }
        }
    }

    pub(super) fn recall(&self, lookup: &DenialLookup<'_>) -> Result<Vec<Outcome>, Option<Epoch>> {
        if !self.remembers {
            return Err(None);
        }
        let decisions = self.store.guard().denials.recall(lookup).map_err(Some)?;
        self.store.guard().counters.remembered.add();
        Ok(decisions)
    }

    /// Drops the remembered denials of a key, because they may be wrong now.
    pub(super) fn forget(&self, key: KeyRef<'_>) {
        let denials = &self.store.guard().denials;
        if denials.any() {
            denials.forget(key, &self.counters);
        }
    }

    pub(super) fn denial_lookup<'a>(
        &'a self,
        terms: Terms,
        sent: Timestamp,
        key: KeyRef<'a>,
        cost: u64,
    ) -> DenialLookup<'a> {
        DenialLookup {
            limits: self.number,
            counters: &self.counters,
            key,
            cost,
            at: terms.at,
            sent,
        }
    }

    /// Executes one operation on each limit: charge, peek, take or set. If the store fails, peeks
    /// and takes follow the rule for failures. The other operations fail unless there is a fallback
    /// that executes them.
    pub(crate) async fn each<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        op: Op,
    ) -> Result<Vec<Outcome>, Error> {
        let key = &ShortKey::of(key);
        let call = Call::new(self, terms, key);
        let result = match self.try_now(terms, key, op) {
            Some(decision) => Ok(vec![decision]),
            None => self.send(terms, key, self.every(op)).await,
        };
        match &result {
            Ok(decisions) => {
                let cost = match op {
                    Op::Peek(cost) => cost,
                    // A denied take reports the wait for one unit. No other operation is ever
                    // denied.
                    _ => 1,
                };
                call.decided(cost, decisions);
                result
            }
            Err(error) => {
                call.failed(error);
                self.without_store(error, terms, key, op).map_or(result, Ok)
            }
        }
    }

    /// Returns a peek of each limit from the store. A fallback is not asked, because it does not
    /// know the usage.
    pub(crate) async fn usage<K: Key>(&self, terms: Terms, key: &K) -> Result<Vec<Outcome>, Error> {
        let key = &ShortKey::of(key);
        match self.try_now(terms, key, Op::Peek(1)) {
            Some(outcome) => Ok(vec![outcome]),
            None => self.send(terms, key, self.every(Op::Peek(1))).await,
        }
    }

    /// Refunds charges to the store or the fallback that was charged. Each receipt comes with the
    /// index of its limit. Returns an outcome for each limit.
    pub(crate) async fn refund<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        receipts: &[(usize, Receipt)],
    ) -> Result<Vec<Outcome>, Error> {
        let key = &ShortKey::of(key);
        let of_source = |wanted: fn(Source) -> bool| -> Vec<(usize, Receipt)> {
            let own = |(index, receipt): &&(usize, Receipt)| {
                *index < self.prepared.len() && wanted(receipt.source)
            };
            receipts.iter().filter(own).copied().collect()
        };
        let local = of_source(|source| source == Source::Fallback);
        let to_store = of_source(is_of_store);
        if to_store.is_empty() && !receipts.is_empty() {
            let now = || terms.at.unwrap_or_else(|| self.store.guard().now());
            let refunded = self.refund_fallback(terms, key, &local);
            // No store was charged, so there is nothing to refund.
            return Ok(refunded.unwrap_or_else(|| self.open(now(), Op::Peek(1))));
        }
        let call = Call::new(self, terms, key);
        let ops = refunds(self.prepared.len(), &to_store);
        let outcomes = self.send(terms, key, ops.iter().copied()).await?;
        let outcomes = last_of_each(&ops, outcomes);
        call.decided(0, &outcomes);
        self.refund_fallback(terms, key, &local);
        Ok(outcomes)
    }

    /// Refunds what the fallback charged. Returns `None` if it charged nothing, or there is no
    /// fallback any more.
    fn refund_fallback<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        receipts: &[(usize, Receipt)],
    ) -> Option<Vec<Outcome>> {
        let fallback = self.fallback.as_ref().filter(|_| !receipts.is_empty())?;
        key.with_key(|key| {
            let ops = refunds(self.prepared.len(), receipts);
            let outcomes = last_of_each(&ops, fallback.each(key, terms.at, ops.iter().copied()));
            if let (Some(owed), Some(first)) = (&self.owed, outcomes.first()) {
                owed.refund(key, first.now(), receipts);
            }
            Some(outcomes)
        })
    }

    pub(crate) async fn reset<K: Key>(&self, terms: Terms, key: &K) -> Result<bool, Error> {
        let key = &ShortKey::of(key);
        // The call ends without a decision, which drops the denials remembered for the key.
        let _call = Call::new(self, terms, key);
        let outcomes = self.ask_each(terms, key, self.every(Op::Reset)).await?;
        if let Some(fallback) = &self.fallback {
            key.with_key(|key| fallback.reset(key));
        }
        if let Some(owed) = &self.owed {
            key.with_key(|key| owed.forget(key));
        }
        Ok(outcomes.iter().any(Outcome::allowed))
    }

    /// Forgets all keys of each limit. It has no deadline.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        let _forget = ForgetAll::new(self.store.guard());
        for prepared in &self.prepared {
            self.store.clear(prepared).await?;
        }
        if let Some(fallback) = &self.fallback {
            fallback.clear();
        }
        if let Some(owed) = &self.owed {
            owed.clear();
        }
        Ok(())
    }

    pub(super) fn lane(&self, key: KeyRef<'_>) -> usize {
        self.store.lane(&self.prepared[0], key)
    }

    /// Returns the same operation for every limit, with the index of the limit.
    pub(super) fn every(&self, op: Op) -> impl Iterator<Item = (usize, Op)> + use<S> {
        (0..self.prepared.len()).map(move |limit| (limit, op))
    }

    /// Calls the store without searching the remembered denials. Each operation comes with the
    /// index of its limit.
    async fn send<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        ops: impl Iterator<Item = (usize, Op)>,
    ) -> Result<Vec<Outcome>, Error> {
        let terms = self.settle(terms, key).await?;
        self.ask_each(terms, key, ops).await
    }

    /// Hits all limits or none.
    async fn send_hit<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        cost: u64,
    ) -> Result<Vec<Outcome>, Error> {
        let terms = self.settle(terms, key).await?;
        if self.prepared.len() == 1 {
            return self.ask_each(terms, key, self.every(Op::Hit(cost))).await;
        }
        let lane = key.with_key(|key| self.lane(key));
        let begin = |deadline| {
            key.with_key(|key| {
                let hit = |prepared| HitItem { prepared, key, cost };
                let hits: Vec<_> = self.prepared.iter().map(hit).collect();
                self.store.ask_together(&hits, terms.at, deadline)
            })
        };
        self.store.guard().call(lane, terms.deadline, begin).await
    }

    async fn ask_each<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        ops: impl Iterator<Item = (usize, Op)>,
    ) -> Result<Vec<Outcome>, Error> {
        let lane = key.with_key(|key| self.lane(key));
        let begin = |deadline| {
            key.with_key(|key| {
                let ask = |(limit, op)| Ask { prepared: &self.prepared[limit], key, op };
                let asks: Vec<_> = ops.map(ask).collect();
                self.store.ask_each(&asks, terms.at, deadline)
            })
        };
        self.store.guard().call(lane, terms.deadline, begin).await
    }
}

/// Returns whether units of this source are counted in the store.
fn is_of_store(source: Source) -> bool {
    !matches!(source, Source::Fallback | Source::FailOpen | Source::FailClosed)
}

/// Returns a hash that identifies the counter of a limit. If two counters have the same hash, some
/// denials are dropped needlessly.
pub(super) fn counter(namespace: &str, limit: &Limit) -> u64 {
    let mut hasher = DefaultHasher::new();
    (namespace, limit.identity()).hash(&mut hasher);
    hasher.finish()
}

/// Returns the only decision of a list, or an error if there is not exactly one.
fn one<T: Copy>(decisions: &[T]) -> Result<T, Error> {
    match decisions {
        [decision] => Ok(*decision),
        _ => Err(Error::store(
            format!("the store returned {} decisions instead of 1", decisions.len()),
            false,
        )),
    }
}
