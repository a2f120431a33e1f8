//! The way of a call on a shared store: remembered denials first, then the store behind its guard, then what the limiter does on failure.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::denials::{Epoch, Question};
use super::failure::{Fallback, OnFailure};
use super::{Ask, Guard, Mode, SharedStore, guard};
use crate::algorithm::{AnyMachine, Op};
use crate::decision::{Decision, Receipt, Source};
use crate::error::Error;
use crate::key::{Key, KeyRef, OwnedKey};
use crate::limit::{Algorithm, Limit};
use crate::time::Timestamp;

/// What a limiter knows: its store, its limits there, and what to do when the store fails.
#[derive(Clone, Debug)]
pub(crate) struct Limits<S: SharedStore> {
    pub(crate) store: S,
    namespace: Box<str>,
    pub(crate) prepared: Box<[S::Prepared]>,
    machines: Box<[AnyMachine]>,
    /// Stands for these limits among remembered denials; shared by clones.
    number: u64,
    /// Whether a denial holds until its time: not where refused attempts change the state.
    remembers: bool,
    pub(crate) deadline: Duration,
    pub(super) on_failure: OnFailure,
    pub(super) fallback: Option<Fallback>,
}

/// When and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) at: Option<Timestamp>,
    pub(crate) deadline: Duration,
}

impl<S: SharedStore> Limits<S> {
    pub(crate) fn new(store: &S, namespace: &str, limits: &[Limit]) -> Result<Self, Error> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let prepare = |limit| store.prepare(namespace, limit);
        let holds =
            |limit: &Limit| limit.algorithm() != Algorithm::ElasticWindow && !limit.charge_denied();
        Ok(Limits {
            store: store.clone(),
            namespace: namespace.into(),
            prepared: limits.iter().map(prepare).collect::<Result<_, _>>()?,
            machines: limits.iter().map(AnyMachine::new).collect(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            remembers: limits.iter().all(holds),
            deadline: store.guard().deadline(),
            on_failure: OnFailure::Error,
            fallback: None,
        })
    }

    pub(crate) fn on_failure(
        mut self,
        limits: &[Limit],
        on_failure: OnFailure,
    ) -> Result<Self, Error> {
        self.fallback = match on_failure {
            OnFailure::Local(share) => {
                let store = self.store.guard().fallback();
                Some(Fallback::new(store, &self.namespace, limits, share)?)
            }
            OnFailure::Error | OnFailure::Open | OnFailure::Closed => None,
        };
        self.on_failure = on_failure;
        Ok(self)
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms { at: None, deadline: self.deadline }
    }

    /// Hits all limits or none.
    pub(crate) async fn hit<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        cost: u64,
    ) -> Result<Vec<Decision>, Error> {
        let sent = self.store.guard().now();
        let known = key.with_key(|key| self.recall(&self.question(terms, sent, key, cost)));
        let epoch = match known {
            Ok(decisions) => return Ok(decisions),
            Err(epoch) => epoch,
        };
        let result = self.send(terms, key, |_| Op::Hit(cost)).await;
        match result {
            Ok(decisions) => {
                key.with_key(|key| {
                    self.learn(&self.question(terms, sent, key, cost), epoch, &decisions);
                });
                Ok(decisions)
            }
            Err(error) => self.without_store(&error, terms, key, Op::Hit(cost)).ok_or(error),
        }
    }

    fn recall(&self, question: &Question<'_>) -> Result<Vec<Decision>, Option<Epoch>> {
        if !self.remembers {
            return Err(None);
        }
        let decisions = self.store.guard().denials.recall(question).map_err(Some)?;
        self.store.guard().counters.remembered.add();
        Ok(decisions)
    }

    fn learn(&self, question: &Question<'_>, epoch: Option<Epoch>, decisions: &[Decision]) {
        self.warm(question.key, question.at, decisions);
        if let Some(epoch) = epoch {
            self.store.guard().denials.remember(question, epoch, decisions);
        }
    }

    fn question<'a>(
        &self,
        terms: Terms,
        sent: Timestamp,
        key: KeyRef<'a>,
        cost: u64,
    ) -> Question<'a> {
        Question { limits: self.number, key, cost, at: terms.at, sent }
    }

    /// Hits each key on its own.
    pub(crate) async fn hit_each<K: Key>(
        &self,
        terms: Terms,
        keys: &[K],
    ) -> Result<Vec<Decision>, Error> {
        let sent = self.store.guard().now();
        let mut decisions: Vec<Option<Decision>> = vec![None; keys.len()];
        let mut epochs = vec![None; keys.len()];
        // Those to ask for, by what fails together.
        let mut lanes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, key) in keys.iter().enumerate() {
            match key.with_key(|key| self.recall(&self.question(terms, sent, key, 1))) {
                Ok(remembered) => decisions[index] = remembered.first().copied(),
                Err(epoch) => {
                    epochs[index] = epoch;
                    lanes.entry(key.with_key(|key| self.lane(key))).or_default().push(index);
                }
            }
        }
        let ask = async |lane: usize, indexes: &[usize]| {
            let owned: Vec<_> = indexes.iter().map(|index| OwnedKey::new(&keys[*index])).collect();
            let prepared = &self.prepared[0];
            let begin = || {
                let ask = |key| Ask { prepared, key: OwnedKey::as_ref(key), op: Op::Hit(1) };
                let asks: Vec<_> = owned.iter().map(ask).collect();
                self.store.ask(&asks, Mode::Each, terms.at)
            };
            guard::call(&self.store, lane, terms.deadline, begin).await
        };
        let calls: Vec<_> = lanes.iter().map(|(lane, indexes)| ask(*lane, indexes)).collect();
        let answers = join_all(calls).await;
        for (indexes, answer) in lanes.values().zip(answers) {
            for (position, index) in indexes.iter().enumerate() {
                let key = &keys[*index];
                let decision = match &answer {
                    Ok(answers) => answers.get(position).copied().inspect(|decision| {
                        let one = std::slice::from_ref(decision);
                        key.with_key(|key| {
                            self.learn(&self.question(terms, sent, key, 1), epochs[*index], one);
                        });
                    }),
                    Err(error) => {
                        let instead = self.without_store(error, terms, key, Op::Hit(1));
                        instead.ok_or_else(|| error.clone())?.first().copied()
                    }
                };
                decisions[*index] = decision;
            }
        }
        let all: Option<Vec<Decision>> = decisions.into_iter().collect();
        all.ok_or_else(|| Error::store("fewer decisions than keys", false))
    }

    /// One operation on each limit that charges, looks or sets. Peeks and takes follow the rule for failures, the rest is lost with an error
    /// unless there is a fallback to do it on.
    pub(crate) async fn each<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        op: Op,
    ) -> Result<Vec<Decision>, Error> {
        let _forget = matches!(op, Op::RefundUnits(_) | Op::Set(_)).then(|| Forget::new(self, key));
        let result = self.send(terms, key, |_| op).await;
        match &result {
            Ok(decisions) => {
                key.with_key(|key| self.warm(key, terms.at, decisions));
                result
            }
            Err(error) => self.without_store(error, terms, key, op).map_or(result, Ok),
        }
    }

    /// Gives back what was charged, where it was charged: one receipt for each limit.
    pub(crate) async fn refund<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        receipts: &[Receipt],
    ) -> Result<Vec<Decision>, Error> {
        let op = |index: usize| receipts.get(index).map_or(Op::RefundUnits(0), |r| Op::Refund(*r));
        match (receipts.first().map(|receipt| receipt.source), &self.fallback) {
            (Some(Source::Fallback), Some(fallback)) => {
                return Ok(key.with_key(|key| fallback.each(key, terms.at, op)));
            }
            // Charged nowhere.
            (Some(Source::Fallback | Source::FailOpen | Source::FailClosed), _) => {
                let now = terms.at.unwrap_or_else(|| self.store.guard().now());
                return Ok(self.open(now, Op::Peek(1)));
            }
            _ => {}
        }
        let _forget = Forget::new(self, key);
        let decisions = self.send(terms, key, op).await?;
        key.with_key(|key| self.warm(key, terms.at, &decisions));
        Ok(decisions)
    }

    pub(crate) async fn reset<K: Key>(&self, terms: Terms, key: &K) -> Result<bool, Error> {
        let _forget = Forget::new(self, key);
        let lane = key.with_key(|key| self.lane(key));
        let begin = || key.with_key(|key| self.store.reset(&self.prepared, key, terms.at));
        let was_there = guard::call(&self.store, lane, terms.deadline, begin).await?;
        if let Some(fallback) = &self.fallback {
            key.with_key(|key| fallback.reset(key));
        }
        Ok(was_there)
    }

    /// Takes as long as it takes: no deadline.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        let _forget = ForgetAll::new(self.store.guard());
        for prepared in &self.prepared {
            self.store.clear(prepared).await?;
        }
        if let Some(fallback) = &self.fallback {
            fallback.clear();
        }
        Ok(())
    }

    fn lane(&self, key: KeyRef<'_>) -> usize {
        self.store.lane(&self.prepared[0], key)
    }

    /// Asks the store, whatever is remembered: all limits together if it is a hit.
    async fn send<K: Key>(
        &self,
        terms: Terms,
        key: &K,
        op: impl Fn(usize) -> Op,
    ) -> Result<Vec<Decision>, Error> {
        let lane = key.with_key(|key| self.lane(key));
        let begin = || {
            key.with_key(|key| {
                let ask = |(index, prepared)| Ask { prepared, key, op: op(index) };
                let asks: Vec<_> = self.prepared.iter().enumerate().map(ask).collect();
                let several_hits = asks.len() > 1 && matches!(asks[0].op, Op::Hit(_));
                let mode = if several_hits { Mode::Together } else { Mode::Each };
                self.store.ask(&asks, mode, terms.at)
            })
        };
        guard::call(&self.store, lane, terms.deadline, begin).await
    }

    /// The answer of a limiter whose store did not give one; `None` leaves the error to the caller.
    fn without_store<K: Key>(
        &self,
        error: &Error,
        terms: Terms,
        key: &K,
        op: Op,
    ) -> Option<Vec<Decision>> {
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
                Some(self.closed(now, cost))
            }
            (OnFailure::Local(_), Op::Hit(_) | Op::Peek(_) | Op::Take(_) | Op::Charge(_)) => {
                let fallback = self.fallback.as_ref()?;
                guard.counters.fallback.add();
                let decisions = key.with_key(|key| match op {
                    Op::Hit(cost) => fallback.hit(key, terms.at, cost),
                    _ => fallback.each(key, terms.at, |_| op),
                });
                Some(self.not_never(decisions))
            }
            _ => None,
        }
    }

    /// What passes when everything passes that could: a fresh key that stays so.
    pub(super) fn open(&self, now: Timestamp, op: Op) -> Vec<Decision> {
        let open = |machine: &AnyMachine| machine.apply(&mut None, now, op);
        self.machines.iter().map(|machine| open(machine).with_source(Source::FailOpen)).collect()
    }

    /// What is refused because nothing passes, until the store is asked again.
    pub(super) fn closed(&self, now: Timestamp, cost: u64) -> Vec<Decision> {
        let until = self.store.guard().asks_again_at(now);
        let closed = |machine: &AnyMachine| Decision::closed(machine.capacity(), now, cost, until);
        self.machines.iter().map(closed).collect()
    }

    /// A cost beyond the share but not beyond the limit passes again when the store does: that is no refusal without end.
    fn not_never(&self, mut decisions: Vec<Decision>) -> Vec<Decision> {
        let until = |decision: &Decision| self.store.guard().asks_again_at(decision.now());
        for (decision, machine) in decisions.iter_mut().zip(&self.machines) {
            *decision = decision.not_beyond(machine.capacity(), until(decision));
        }
        decisions
    }

    /// Never lowers what the fallback has counted, also after a refund: what it admitted while the store was away, the store does not know.
    pub(super) fn warm(&self, key: KeyRef<'_>, at: Option<Timestamp>, decisions: &[Decision]) {
        if let Some(fallback) = &self.fallback {
            fallback.warm(key, at, decisions);
        }
    }
}

/// All of them at once, in order.
async fn join_all<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.into_iter().map(|call| (Box::pin(call), None)).collect();
    poll_fn(|cx| {
        for (call, output) in calls.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = call.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if calls.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    calls.into_iter().filter_map(|(_, output)| output).collect()
}

/// Forgets the remembered denials of a key, now and when the call that gives something back has ended, however it ended.
struct Forget<'a, S: SharedStore, K: Key> {
    limits: &'a Limits<S>,
    key: &'a K,
}

impl<'a, S: SharedStore, K: Key> Forget<'a, S, K> {
    fn new(limits: &'a Limits<S>, key: &'a K) -> Self {
        let forget = Forget { limits, key };
        forget.now();
        forget
    }

    fn now(&self) {
        self.key.with_key(|key| self.limits.store.guard().denials.forget(key));
    }
}

impl<S: SharedStore, K: Key> Drop for Forget<'_, S, K> {
    fn drop(&mut self) {
        self.now();
    }
}

/// The same for all keys.
struct ForgetAll<'a>(&'a Guard);

impl<'a> ForgetAll<'a> {
    fn new(guard: &'a Guard) -> Self {
        guard.denials.clear();
        ForgetAll(guard)
    }
}

impl Drop for ForgetAll<'_> {
    fn drop(&mut self) {
        self.0.denials.clear();
    }
}
