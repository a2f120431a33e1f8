//! A policy on a shared store.

use std::time::Duration;

use super::SharedStore;
use super::asking::{Limits, Terms};
use super::failure::OnFailure;
use super::limiter::SharedLimiter;
use super::together::SharedItem;
use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::outcome::{Outcome, Receipt};
use crate::policy::Policy;
use crate::time::Timestamp;

/// Several limits on one key of a shared store, decided together: the calls of
/// [`PolicyLimiter`](crate::PolicyLimiter) as futures that may fail.
///
/// ```
/// use tollgate::Memory;
/// use tollgate::shared::{InProcess, SharedPolicyLimiter};
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let store = InProcess::new(Memory::new());
/// let limiter = SharedPolicyLimiter::on(&store, "", "5/second; 100/minute")?;
/// assert!(limiter.hit("user:42").await?.allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedPolicyLimiter<S: SharedStore> {
    limits: Limits<S>,
    policy: Policy,
}

/// A [`SharedPolicyLimiter`] with another deadline, or at a given time: the same calls.
///
/// See [`SharedPolicyLimiter::within`] and [`SharedPolicyLimiter::at`].
#[derive(Clone, Copy, Debug)]
pub struct SharedPolicyCall<'a, S: SharedStore> {
    limits: &'a Limits<S>,
    terms: Terms,
}

/// A limiter of one limit as a policy, with its rule for failures: both count in the same state.
///
/// ```
/// use tollgate::Memory;
/// use tollgate::shared::{InProcess, SharedLimiter, SharedPolicyLimiter};
///
/// let store = InProcess::new(Memory::new());
/// let limiter = SharedLimiter::on(&store, "", "2/hour")?;
/// let policy = SharedPolicyLimiter::from(limiter);
/// assert_eq!(policy.policy().limits().len(), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
impl<S: SharedStore> From<SharedLimiter<S>> for SharedPolicyLimiter<S> {
    fn from(limiter: SharedLimiter<S>) -> Self {
        let SharedLimiter { limits, limit, .. } = limiter;
        SharedPolicyLimiter { limits, policy: limit.into() }
    }
}

impl<S: SharedStore> SharedPolicyLimiter<S> {
    /// On a store, in a namespace: what `policy_limiter_in` of the stores calls.
    ///
    /// # Errors
    /// When the policy is not valid or the store cannot hold it.
    ///
    /// See the example of [`SharedPolicyLimiter`].
    pub fn on<P>(store: &S, namespace: &str, policy: P) -> Result<Self, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        let policy = policy.try_into()?;
        Ok(SharedPolicyLimiter { limits: Limits::new(store, namespace, policy.limits())?, policy })
    }

    /// What to answer when the store does not: see
    /// [`SharedLimiter::on_failure`](super::SharedLimiter::on_failure).
    ///
    /// # Errors
    /// When a share of a limit is no valid limit.
    pub fn on_failure(self, on_failure: OnFailure) -> Result<Self, Error> {
        let limits = self.limits.on_failure(self.policy.limits(), on_failure)?;
        Ok(SharedPolicyLimiter { limits, ..self })
    }

    /// How long a call may take, instead of what the store's [`Guard`](super::Guard) says.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.limits.deadline = deadline;
        self
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The same calls with another deadline.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> SharedPolicyCall<'_, S> {
        let terms = Terms { deadline, ..self.limits.terms() };
        SharedPolicyCall { limits: &self.limits, terms }
    }

    /// The same calls at a given time instead of the store's: for tests.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> SharedPolicyCall<'_, S> {
        let terms = Terms { at: Some(now), ..self.limits.terms() };
        SharedPolicyCall { limits: &self.limits, terms }
    }

    fn now(&self) -> SharedPolicyCall<'_, S> {
        SharedPolicyCall { limits: &self.limits, terms: self.limits.terms() }
    }

    /// See [`PolicyLimiter::hit`](crate::PolicyLimiter::hit).
    ///
    /// # Errors
    /// When the store does not answer and the limiter has no rule for that.
    pub async fn hit<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.now().hit_n(key, 1).await
    }

    /// See [`PolicyLimiter::hit_n`](crate::PolicyLimiter::hit_n).
    ///
    /// # Errors
    /// As [`hit`](SharedPolicyLimiter::hit).
    pub async fn hit_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().hit_n(key, cost).await
    }

    /// See [`PolicyLimiter::peek`](crate::PolicyLimiter::peek).
    ///
    /// # Errors
    /// As [`hit`](SharedPolicyLimiter::hit).
    pub async fn peek<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.now().peek_n(key, 1).await
    }

    /// See [`PolicyLimiter::peek_n`](crate::PolicyLimiter::peek_n).
    ///
    /// # Errors
    /// As [`hit`](SharedPolicyLimiter::hit).
    pub async fn peek_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.now().peek_n(key, cost).await
    }

    /// See [`PolicyLimiter::charge`](crate::PolicyLimiter::charge).
    ///
    /// # Errors
    /// When the store does not answer and there is no fallback to charge.
    pub async fn charge<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().charge(key, units).await
    }

    /// See [`PolicyLimiter::refund`](crate::PolicyLimiter::refund). What was charged to a fallback
    /// is given back there.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund<K: Key>(&self, key: K, decision: &Decision) -> Result<Decision, Error> {
        self.now().refund(key, decision).await
    }

    /// See [`PolicyLimiter::refund_n`](crate::PolicyLimiter::refund_n).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund_n<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().refund_n(key, units).await
    }

    /// See [`PolicyLimiter::refund_part`](crate::PolicyLimiter::refund_part).
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

    /// See [`PolicyLimiter::set`](crate::PolicyLimiter::set).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn set<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.now().set(key, units).await
    }

    /// See [`PolicyLimiter::reset`](crate::PolicyLimiter::reset).
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.now().reset(key).await
    }

    /// See [`PolicyLimiter::usage`](crate::PolicyLimiter::usage), and
    /// [`SharedLimiter::usage`](super::SharedLimiter::usage).
    ///
    /// # Errors
    /// When the store does not answer, whatever the limiter does on failure.
    pub async fn usage<K: Key>(&self, key: K) -> Result<Vec<u64>, Error> {
        self.now().usage(key).await
    }

    /// See [`PolicyLimiter::clear`](crate::PolicyLimiter::clear). Goes through all keys in slices
    /// and has no deadline.
    ///
    /// # Errors
    /// When the store does not answer; some keys may be gone.
    pub async fn clear(&self) -> Result<(), Error> {
        self.limits.clear().await
    }

    /// This policy, a key and a cost, for [`hit_all_shared`](super::hit_all_shared).
    pub fn item<K: Key>(&self, key: K, cost: u64) -> SharedItem<'_, S> {
        SharedItem::new(&self.limits, key, cost)
    }
}

impl<S: SharedStore> SharedPolicyCall<'_, S> {
    /// See [`SharedPolicyLimiter::hit`].
    ///
    /// # Errors
    /// As [`SharedPolicyLimiter::hit`].
    pub async fn hit<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.hit_n(key, 1).await
    }

    /// See [`SharedPolicyLimiter::hit_n`].
    ///
    /// # Errors
    /// As [`SharedPolicyLimiter::hit`].
    pub async fn hit_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        several(self.limits.hit(self.terms, &key, cost).await?)
    }

    async fn each<K: Key>(&self, key: K, op: Op) -> Result<Decision, Error> {
        several(self.limits.each(self.terms, &key, op).await?)
    }

    /// See [`SharedPolicyLimiter::peek`].
    ///
    /// # Errors
    /// As [`SharedPolicyLimiter::hit`].
    pub async fn peek<K: Key>(&self, key: K) -> Result<Decision, Error> {
        self.peek_n(key, 1).await
    }

    /// See [`SharedPolicyLimiter::usage`].
    ///
    /// # Errors
    /// As [`SharedPolicyLimiter::usage`].
    pub async fn usage<K: Key>(&self, key: K) -> Result<Vec<u64>, Error> {
        self.limits.usage(self.terms, &key).await
    }

    /// See [`SharedPolicyLimiter::peek_n`].
    ///
    /// # Errors
    /// As [`SharedPolicyLimiter::hit`].
    pub async fn peek_n<K: Key>(&self, key: K, cost: u64) -> Result<Decision, Error> {
        self.each(key, Op::Peek(cost)).await
    }

    /// See [`SharedPolicyLimiter::charge`].
    ///
    /// # Errors
    /// As [`SharedPolicyLimiter::charge`].
    pub async fn charge<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::Charge(units)).await
    }

    /// See [`SharedPolicyLimiter::refund`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund<K: Key>(&self, key: K, decision: &Decision) -> Result<Decision, Error> {
        self.refund_part(key, decision, u64::MAX).await
    }

    /// See [`SharedPolicyLimiter::refund_n`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund_n<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::RefundUnits(units)).await
    }

    /// See [`SharedPolicyLimiter::refund_part`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn refund_part<K: Key>(
        &self,
        key: K,
        decision: &Decision,
        units: u64,
    ) -> Result<Decision, Error> {
        let receipts: Vec<Receipt> = decision.receipts().map(|r| r.at_most(units)).collect();
        several(self.limits.refund(self.terms, &key, &receipts).await?)
    }

    /// See [`SharedPolicyLimiter::set`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn set<K: Key>(&self, key: K, units: u64) -> Result<Decision, Error> {
        self.each(key, Op::Set(units)).await
    }

    /// See [`SharedPolicyLimiter::reset`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.limits.reset(self.terms, &key).await
    }
}

/// The decision of a policy.
fn several(outcomes: Vec<Outcome>) -> Result<Decision, Error> {
    let count = outcomes.len();
    Decision::from_outcomes(outcomes)
        .ok_or_else(|| Error::store(format!("{count} decisions for a policy"), false))
}
