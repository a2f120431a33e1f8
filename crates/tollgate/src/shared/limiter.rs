//! Limiters on shared stores.

use std::time::Duration;

use super::SharedStore;
use super::asking::{LimiterParts, Terms};
use super::failure::OnFailure;
use super::together::SharedItem;
use crate::algorithm::Op;
use crate::decision::{Decision, room, usage};
use crate::error::Error;
use crate::key::Key;
use crate::limit::Limit;
use crate::outcome::{Outcome, Receipt};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::wait::Queue;
use crate::wire_receipt::WireReceipt;
use crate::wire_refund::{CheckedReceipts, WireRefund, wire_receipts};

/// One or several limits on a shared store. It has the same calls as [`Limiter`](crate::Limiter),
/// but they return futures and may fail.
///
/// Every call ends within its deadline. [`on_failure`](SharedLimiter::on_failure) sets what happens
/// if the store does not answer. By default the call returns the error.
///
/// See the example of [`InProcess`](super::InProcess).
#[derive(Clone, Debug)]
pub struct SharedLimiter<S: SharedStore> {
    pub(super) limits: LimiterParts<S>,
    pub(super) queue: Queue,
}

/// A [`SharedLimiter`] whose calls have another deadline or use a given time.
///
/// See [`SharedLimiter::within`] and [`SharedLimiter::at`].
#[derive(Clone, Copy, Debug)]
pub struct SharedCall<'a, S: SharedStore> {
    limiter: &'a SharedLimiter<S>,
    terms: Terms,
}

impl<S: SharedStore> SharedLimiter<S> {
    /// Creates a limiter on a store, in a namespace. The method `limiter_in` of a store does the
    /// same.
    ///
    /// # Errors
    /// Fails if a limit is not valid, or the store does not support it.
    ///
    /// See the example of [`InProcess`](super::InProcess).
    pub fn new<P>(store: &S, namespace: &str, policy: P) -> Result<Self, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        let limits = LimiterParts::new(store, namespace, policy.try_into()?)?;
        Ok(SharedLimiter { limits, queue: Queue::default() })
    }

    /// Sets what the limiter does if the store does not answer.
    ///
    /// # Errors
    /// Fails if the share of a limit is not a valid limit, because its burst would take more than a
    /// thousand years to refill.
    ///
    /// ```
    /// use tollgate::{Memory, shared::{InProcess, OnFailure, Share, SharedLimiter}};
    /// let store = InProcess::new(Memory::new());
    /// let limiter = SharedLimiter::new(&store, "", "100/minute")?
    ///     .on_failure(OnFailure::Local(Share::one_of(4)?))?;
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn on_failure(self, on_failure: OnFailure) -> Result<Self, Error> {
        let limits = self.limits.on_failure(on_failure)?;
        Ok(SharedLimiter { limits, ..self })
    }

    /// Sets how long a call may take, instead of the deadline of the store's
    /// [`Guard`](super::Guard).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Memory, shared::{InProcess, SharedLimiter}};
    /// let store = InProcess::new(Memory::new());
    /// let limiter = SharedLimiter::new(&store, "", "100/minute")?.deadline(Duration::from_millis(20));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.limits.deadline = deadline;
        self
    }

    /// Returns the limits as a policy.
    ///
    /// ```
    /// use tollgate::{Memory, shared::{InProcess, SharedLimiter}};
    /// let store = InProcess::new(Memory::new());
    /// let limiter = SharedLimiter::new(&store, "", "5/second; 100/minute")?;
    /// assert_eq!(limiter.policy().to_string(), "5/second; 100/minute");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.limits.policy
    }

    /// Returns the limits, in the order of the outcomes.
    ///
    /// ```
    /// use tollgate::{Memory, shared::{InProcess, SharedLimiter}};
    /// let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "5/minute")?;
    /// assert_eq!(limiter.limits()[0].quota(), 5);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.limits.policy.limits()
    }

    /// Returns the store.
    ///
    /// ```
    /// use tollgate::{Memory, shared::{InProcess, SharedLimiter, SharedStore}};
    /// let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "5/minute")?;
    /// assert_eq!(limiter.store().guard().stats().answered, 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn store(&self) -> &S {
        &self.limits.store
    }

    /// Returns a handle whose calls have another deadline.
    ///
    /// ```
    /// # use tollgate::{Memory, shared::{InProcess, SharedLimiter}};
    /// # async fn example() -> Result<(), tollgate::Error> {
    /// # let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "5/minute")?;
    /// let decision = limiter.within(std::time::Duration::from_millis(50)).hit("user:42").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn within(&self, deadline: Duration) -> SharedCall<'_, S> {
        SharedCall { limiter: self, terms: Terms { deadline, ..self.limits.terms() } }
    }

    /// Returns a handle whose calls use the given time instead of the store's time, for tests.
    ///
    /// ```
    /// # use tollgate::{Memory, Timestamp, shared::{InProcess, SharedLimiter}};
    /// # async fn example() -> Result<(), tollgate::Error> {
    /// # let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "5/minute")?;
    /// let decision = limiter.at(Timestamp::from_micros(1_000_000)).hit("user:42").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at(&self, now: Timestamp) -> SharedCall<'_, S> {
        SharedCall { limiter: self, terms: Terms { at: Some(now), ..self.limits.terms() } }
    }

    fn now(&self) -> SharedCall<'_, S> {
        SharedCall { limiter: self, terms: self.limits.terms() }
    }

    /// See [`Limiter::hit`](crate::Limiter::hit).
    ///
    /// # Errors
    /// Fails if the store does not answer and the limiter has no rule for that.
    pub async fn hit<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.limits.hit(self.limits.terms(), &key, 1).await
    }

    /// See [`Limiter::hit_n`](crate::Limiter::hit_n).
    ///
    /// # Errors
    /// Fails if [`hit`](SharedLimiter::hit) does.
    pub async fn hit_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().hit_n(key, cost).await
    }

    /// Does the same as [`hit_n`](SharedLimiter::hit_n) without a future, for a single limit on a
    /// store that can answer without waiting, such as a store in this process. `None` means that
    /// the store was not asked.
    ///
    /// ```
    /// use tollgate::Memory;
    /// use tollgate::shared::{InProcess, SharedLimiter};
    ///
    /// let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "1/hour")?;
    /// let allowed = limiter.hit_now("alice", 1).map(|decision| decision.allowed());
    /// assert_eq!(allowed, Some(true));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub fn hit_now<K: Key + ?Sized>(&self, key: &K, cost: u64) -> Option<Decision> {
        self.limits.hit_now(self.limits.terms(), key, cost).map(Decision::from)
    }

    /// See [`Limiter::peek`](crate::Limiter::peek).
    ///
    /// # Errors
    /// Fails if [`hit`](SharedLimiter::hit) does.
    pub async fn peek<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.now().peek_n(key, 1).await
    }

    /// See [`Limiter::peek_n`](crate::Limiter::peek_n).
    ///
    /// # Errors
    /// Fails if [`hit`](SharedLimiter::hit) does.
    pub async fn peek_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().peek_n(key, cost).await
    }

    /// See [`Limiter::take`](crate::Limiter::take).
    ///
    /// # Errors
    /// Fails if [`hit`](SharedLimiter::hit) does.
    pub async fn take<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().take(key, cost).await
    }

    /// See [`Limiter::charge`](crate::Limiter::charge).
    ///
    /// # Errors
    /// Fails if the store does not answer and there is no fallback to charge.
    pub async fn charge<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().charge(key, units).await
    }

    /// See [`Limiter::refund`](crate::Limiter::refund). Units that a fallback charged are given
    /// back to the fallback.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund<K: Key>(&self, key: K, decision: &Decision) -> Result<Decision, Error> {
        self.now().refund(key, decision).await
    }

    /// See [`Limiter::refund_part`](crate::Limiter::refund_part).
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund_part<K: Key>(
        &self,
        key: K,
        decision: &Decision,
        units: u64,
    ) -> Result<Decision, Error> {
        self.now().refund_part(key, decision, units).await
    }

    /// See [`Limiter::refund_receipts`](crate::Limiter::refund_receipts).
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[Receipt],
    ) -> Result<Decision, Error> {
        self.now().refund_receipts(key, receipts).await
    }

    /// See [`Limiter::wire_receipts`](crate::Limiter::wire_receipts).
    pub fn wire_receipts<K: Key>(
        &self,
        key: K,
        decision: &Decision,
    ) -> impl Iterator<Item = WireReceipt> {
        wire_receipts(self.limits.places().iter(), key, decision)
    }

    /// See [`Limiter::refund_wire_receipts`](crate::Limiter::refund_wire_receipts). Units that a
    /// fallback charged are given back to the fallback.
    ///
    /// # Errors
    /// Fails if a receipt is not valid, or the store does not answer. Then nothing is given back.
    pub async fn refund_wire_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[WireReceipt],
        units: Option<u64>,
    ) -> Result<WireRefund, Error> {
        self.now().refund_wire_receipts(key, receipts, units).await
    }

    /// See [`Limiter::refund_n`](crate::Limiter::refund_n).
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund_n<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().refund_n(key, units).await
    }

    /// See [`Limiter::set`](crate::Limiter::set).
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn set<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().set(key, units).await
    }

    /// See [`Limiter::reset`](crate::Limiter::reset).
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.now().reset(key).await
    }

    /// See [`Limiter::usage`](crate::Limiter::usage). The number comes from the store and never
    /// from a fallback. Use [`peek`](SharedLimiter::peek) for a decision, which states its source.
    ///
    /// # Errors
    /// Fails if the store does not answer, even if the limiter has a rule for that.
    pub async fn usage<K: Key>(&self, key: K) -> Result<u64, Error> {
        self.now().usage(key).await
    }

    /// See [`Limiter::hit_each`](crate::Limiter::hit_each). The hits are independent and cost 1
    /// each. With one limit they are sent to the store in one call for each lane (a part of the
    /// store that fails as a whole).
    ///
    /// # Errors
    /// Fails if [`hit`](SharedLimiter::hit) does. Some of the keys may have been charged.
    pub async fn hit_each<K: Key>(&self, keys: &[K]) -> Result<Vec<Decision>, Error> {
        self.now().hit_each(keys).await
    }

    /// See [`Limiter::clear`](crate::Limiter::clear). It visits all keys in batches and has no
    /// deadline.
    ///
    /// # Errors
    /// Fails if the store does not answer. Some keys may have been forgotten.
    pub async fn clear(&self) -> Result<(), Error> {
        self.limits.clear().await
    }

    /// Checks whether the store can decide. The check charges a reserved key, so it fails on a
    /// store that can only be read.
    ///
    /// # Errors
    /// Fails if the store cannot decide within the deadline.
    pub async fn check(&self) -> Result<(), Error> {
        let LimiterParts { store, deadline, .. } = &self.limits;
        store.guard().within(*deadline, store.check()).await
    }

    /// Combines this limiter with a key and a cost, for [`hit_all_shared`](super::hit_all_shared).
    ///
    /// See the example of [`hit_all_shared`](super::hit_all_shared).
    pub fn item<K: Key>(&self, key: K, cost: u64) -> SharedItem<'_, S> {
        SharedItem::new(&self.limits, key, cost)
    }
}

/// The largest number of attempts of a take on several limits, in case other callers take the units
/// meanwhile.
const TAKE_ATTEMPTS: u32 = 16;

impl<S: SharedStore> SharedCall<'_, S> {
    /// See [`SharedLimiter::hit`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::hit`] does.
    pub async fn hit<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.hit_n(key, 1).await
    }

    /// See [`SharedLimiter::hit_n`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::hit`] does.
    pub async fn hit_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.limiter.limits.hit(self.terms, &key, cost).await
    }

    async fn each<K: Key>(&self, key: K, op: Op) -> Result<Decision, Error> {
        decision(self.limiter.limits.each(self.terms, &key, op).await?)
    }

    /// See [`SharedLimiter::peek`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::hit`] does.
    pub async fn peek<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.each(key, Op::Peek(1)).await
    }

    /// See [`SharedLimiter::peek_n`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::hit`] does.
    pub async fn peek_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.each(key, Op::Peek(cost)).await
    }

    /// See [`SharedLimiter::take`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::hit`] does.
    pub async fn take<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        if let [_] = self.limiter.limits() {
            return self.each(key, Op::Take(cost)).await;
        }
        let mut attempts = 0;
        loop {
            let granted = room(self.peek_n(&key, cost).await?.outcomes()).min(cost);
            let decision = self.hit_n(&key, granted.max(cost.min(1))).await?;
            attempts += 1;
            // If the hit is denied although units were left, another caller took them: try again.
            if decision.allowed() || granted == 0 || attempts == TAKE_ATTEMPTS {
                return Ok(decision);
            }
        }
    }

    /// See [`SharedLimiter::charge`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::charge`] does.
    pub async fn charge<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::Charge(units)).await
    }

    /// See [`SharedLimiter::refund`].
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund<K: Key>(&self, key: K, decision: &Decision) -> Result<Decision, Error> {
        self.refund_part(key, decision, u64::MAX).await
    }

    /// See [`SharedLimiter::refund_part`].
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund_part<K: Key>(
        &self,
        key: K,
        decision: &Decision,
        units: u64,
    ) -> Result<Decision, Error> {
        let receipts: Vec<_> = decision.receipts().map(|receipt| receipt.at_most(units)).collect();
        self.refund_receipts(key, &receipts).await
    }

    /// See [`SharedLimiter::refund_receipts`].
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[Receipt],
    ) -> Result<Decision, Error> {
        let receipts: Vec<_> = receipts.iter().copied().enumerate().collect();
        decision(self.limiter.limits.refund(self.terms, &key, &receipts).await?)
    }

    /// See [`SharedLimiter::refund_wire_receipts`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::refund_wire_receipts`] does.
    pub async fn refund_wire_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[WireReceipt],
        units: Option<u64>,
    ) -> Result<WireRefund, Error> {
        let limits = &self.limiter.limits;
        let checked = CheckedReceipts::new(limits.places(), &key, receipts, units)?;
        let outcomes = limits.refund(self.terms, &key, &checked.honoured).await?;
        Ok(WireRefund { decision: decision(outcomes)?, ignored: checked.ignored })
    }

    /// See [`SharedLimiter::refund_n`].
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn refund_n<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::RefundUnits(units)).await
    }

    /// See [`SharedLimiter::set`].
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn set<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::Set(units)).await
    }

    /// See [`SharedLimiter::reset`].
    ///
    /// # Errors
    /// Fails if the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.limiter.limits.reset(self.terms, &key).await
    }

    /// See [`SharedLimiter::usage`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::usage`] does.
    pub async fn usage<K: Key>(&self, key: K) -> Result<u64, Error> {
        Ok(usage(&self.limiter.limits.usage(self.terms, &key).await?))
    }

    /// See [`SharedLimiter::hit_each`].
    ///
    /// # Errors
    /// Fails if [`SharedLimiter::hit_each`] does.
    pub async fn hit_each<K: Key>(&self, keys: &[K]) -> Result<Vec<Decision>, Error> {
        if let [_] = self.limiter.limits() {
            let outcomes = self.limiter.limits.hit_each(self.terms, keys).await?;
            return Ok(outcomes.into_iter().map(Decision::from).collect());
        }
        let mut decisions = Vec::with_capacity(keys.len());
        for key in keys {
            decisions.push(self.hit(key).await?);
        }
        Ok(decisions)
    }
}

/// Combines the outcomes of all limits of a limiter into a decision.
pub(super) fn decision(outcomes: Vec<Outcome>) -> Result<Decision, Error> {
    Decision::from_outcomes(outcomes)
        .ok_or_else(|| Error::store("the store returned no outcome", false))
}
