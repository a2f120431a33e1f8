//! Limiters on shared stores.

use std::time::Duration;

use super::SharedStore;
use super::asking::{LimiterParts, Terms};
use super::failure::OnFailure;
use super::together::SharedItem;
use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::limit::Limit;
use crate::outcome::{Outcome, Receipt};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::wait::Queue;

/// One limit or several on a shared store: the calls of [`Limiter`](crate::Limiter) as futures that
/// may fail.
///
/// Every call ends within its deadline. The rule for a store that does not answer is set by
/// [`on_failure`](SharedLimiter::on_failure); by default it is the error.
///
/// See the example of [`InProcess`](super::InProcess).
#[derive(Clone, Debug)]
pub struct SharedLimiter<S: SharedStore> {
    pub(super) limits: LimiterParts<S>,
    pub(super) queue: Queue,
}

/// A [`SharedLimiter`] with another deadline, or at a given time: the same calls.
///
/// See [`SharedLimiter::within`] and [`SharedLimiter::at`].
#[derive(Clone, Copy, Debug)]
pub struct SharedCall<'a, S: SharedStore> {
    limiter: &'a SharedLimiter<S>,
    terms: Terms,
}

impl<S: SharedStore> SharedLimiter<S> {
    /// A limiter on a store, in a namespace: `limiter_in` of the stores calls it.
    ///
    /// # Errors
    /// When a limit is not valid or the store cannot hold it.
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

    /// Sets the answer for when the store does not answer.
    ///
    /// # Errors
    /// When a share of the limit is no valid limit, because its burst would take more than a
    /// thousand years.
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

    /// Sets how long a call may take, in place of the deadline of the store's
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

    /// The limits as a policy.
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

    /// The limits, in the order of the outcomes.
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

    /// The store.
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

    /// The same calls with another deadline.
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

    /// The same calls at a given time instead of the store's: for tests.
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
    /// When the store does not answer and the limiter has no rule for that.
    pub async fn hit<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.limits.hit(self.limits.terms(), &key, 1).await
    }

    /// See [`Limiter::hit_n`](crate::Limiter::hit_n).
    ///
    /// # Errors
    /// As [`hit`](SharedLimiter::hit).
    pub async fn hit_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().hit_n(key, cost).await
    }

    /// [`hit_n`](SharedLimiter::hit_n) without a future, for a single limit whose store need not
    /// wait: a store in this process. `None` says that the store was not asked.
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
    /// As [`hit`](SharedLimiter::hit).
    pub async fn peek<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.now().peek_n(key, 1).await
    }

    /// See [`Limiter::peek_n`](crate::Limiter::peek_n).
    ///
    /// # Errors
    /// As [`hit`](SharedLimiter::hit).
    pub async fn peek_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().peek_n(key, cost).await
    }

    /// See [`Limiter::take`](crate::Limiter::take).
    ///
    /// # Errors
    /// As [`hit`](SharedLimiter::hit).
    pub async fn take<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().take(key, cost).await
    }

    /// See [`Limiter::charge`](crate::Limiter::charge).
    ///
    /// # Errors
    /// When the store does not answer and there is no fallback to charge.
    pub async fn charge<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().charge(key, units).await
    }

    /// See [`Limiter::refund`](crate::Limiter::refund). What was charged to a fallback is given
    /// back there.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund<K: Key>(&self, key: K, decision: &Decision) -> Result<Decision, Error> {
        self.now().refund(key, decision).await
    }

    /// See [`Limiter::refund_part`](crate::Limiter::refund_part).
    ///
    /// # Errors
    /// When the store does not answer.
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
    /// When the store does not answer.
    pub async fn refund_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[Receipt],
    ) -> Result<Decision, Error> {
        self.now().refund_receipts(key, receipts).await
    }

    /// See [`Limiter::refund_n`](crate::Limiter::refund_n).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund_n<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().refund_n(key, units).await
    }

    /// See [`Limiter::set`](crate::Limiter::set).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn set<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().set(key, units).await
    }

    /// See [`Limiter::reset`](crate::Limiter::reset).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.now().reset(key).await
    }

    /// See [`Limiter::usage`](crate::Limiter::usage). The number is the store's, never that of a
    /// fallback: [`peek`](SharedLimiter::peek) gives a decision, which has its source.
    ///
    /// # Errors
    /// When the store does not answer, whatever the limiter does on failure.
    pub async fn usage<K: Key>(&self, key: K) -> Result<u64, Error> {
        self.now().usage(key).await
    }

    /// See [`Limiter::hit_each`](crate::Limiter::hit_each): independent hits of cost 1, in one call
    /// of the store if there is one limit.
    ///
    /// # Errors
    /// As [`hit`](SharedLimiter::hit); some of the keys may have been charged.
    pub async fn hit_each<K: Key>(&self, keys: &[K]) -> Result<Vec<Decision>, Error> {
        self.now().hit_each(keys).await
    }

    /// See [`Limiter::clear`](crate::Limiter::clear). It visits all keys in slices and has no
    /// deadline.
    ///
    /// # Errors
    /// When the store does not answer; some keys may be gone.
    pub async fn clear(&self) -> Result<(), Error> {
        self.limits.clear().await
    }

    /// Checks whether the store can decide. The check charges a key of its own, so that a store
    /// that can only be read fails it.
    ///
    /// # Errors
    /// When the store cannot decide within the deadline.
    pub async fn check(&self) -> Result<(), Error> {
        let LimiterParts { store, deadline, .. } = &self.limits;
        store.guard().within(*deadline, store.check()).await
    }

    /// This limiter, a key and a cost, for [`hit_all_shared`](super::hit_all_shared).
    ///
    /// See the example of [`hit_all_shared`](super::hit_all_shared).
    pub fn item<K: Key>(&self, key: K, cost: u64) -> SharedItem<'_, S> {
        SharedItem::new(&self.limits, key, cost)
    }
}

/// How often a take of several limits is tried again when another caller was faster.
const TAKE_ATTEMPTS: u32 = 16;

impl<S: SharedStore> SharedCall<'_, S> {
    /// See [`SharedLimiter::hit`].
    ///
    /// # Errors
    /// As [`SharedLimiter::hit`].
    pub async fn hit<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.hit_n(key, 1).await
    }

    /// See [`SharedLimiter::hit_n`].
    ///
    /// # Errors
    /// As [`SharedLimiter::hit`].
    pub async fn hit_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.limiter.limits.hit(self.terms, &key, cost).await
    }

    async fn each<K: Key>(&self, key: K, op: Op) -> Result<Decision, Error> {
        decision(self.limiter.limits.each(self.terms, &key, op).await?)
    }

    /// See [`SharedLimiter::peek`].
    ///
    /// # Errors
    /// As [`SharedLimiter::hit`].
    pub async fn peek<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.each(key, Op::Peek(1)).await
    }

    /// See [`SharedLimiter::peek_n`].
    ///
    /// # Errors
    /// As [`SharedLimiter::hit`].
    pub async fn peek_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.each(key, Op::Peek(cost)).await
    }

    /// See [`SharedLimiter::take`].
    ///
    /// # Errors
    /// As [`SharedLimiter::hit`].
    pub async fn take<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        if let [_] = self.limiter.limits() {
            return self.each(key, Op::Take(cost)).await;
        }
        let mut attempts = 0;
        loop {
            let room = self.peek_n(&key, cost).await?;
            let room = room.outcomes().iter().map(Outcome::remaining).min();
            let granted = room.unwrap_or_default().min(cost);
            let decision = self.hit_n(&key, granted.max(cost.min(1))).await?;
            attempts += 1;
            // Denied although there was room: another caller was faster.
            if decision.allowed() || granted == 0 || attempts == TAKE_ATTEMPTS {
                return Ok(decision);
            }
        }
    }

    /// See [`SharedLimiter::charge`].
    ///
    /// # Errors
    /// As [`SharedLimiter::charge`].
    pub async fn charge<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::Charge(units)).await
    }

    /// See [`SharedLimiter::refund`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund<K: Key>(&self, key: K, decision: &Decision) -> Result<Decision, Error> {
        self.refund_part(key, decision, u64::MAX).await
    }

    /// See [`SharedLimiter::refund_part`].
    ///
    /// # Errors
    /// When the store does not answer.
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
    /// When the store does not answer.
    pub async fn refund_receipts<K: Key>(
        &self,
        key: K,
        receipts: &[Receipt],
    ) -> Result<Decision, Error> {
        decision(self.limiter.limits.refund(self.terms, &key, receipts).await?)
    }

    /// See [`SharedLimiter::refund_n`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund_n<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::RefundUnits(units)).await
    }

    /// See [`SharedLimiter::set`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn set<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::Set(units)).await
    }

    /// See [`SharedLimiter::reset`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.limiter.limits.reset(self.terms, &key).await
    }

    /// See [`SharedLimiter::usage`].
    ///
    /// # Errors
    /// As [`SharedLimiter::usage`].
    pub async fn usage<K: Key>(&self, key: K) -> Result<u64, Error> {
        Ok(decision(self.limiter.limits.usage(self.terms, &key).await?)?.used())
    }

    /// See [`SharedLimiter::hit_each`].
    ///
    /// # Errors
    /// As [`SharedLimiter::hit_each`].
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

/// The decision of a store on all limits of a limiter.
pub(super) fn decision(outcomes: Vec<Outcome>) -> Result<Decision, Error> {
    Decision::from_outcomes(outcomes).ok_or_else(|| Error::store("no outcome of any limit", false))
}
