//! One limit or several on the store, with all operations behind one call.

use std::time::Duration;

use tollgate::shared::{AnyStore, OnFailure, SharedItem, SharedLimiter, SharedPolicyLimiter};
use tollgate::{Decision, Error, Key, Limit, Outcome, Policy, Source};
use tollgate_http::Shown;

/// A policy on the store. One limit alone, the usual case, takes a shorter way.
#[derive(Clone, Debug)]
pub struct Limiter {
    kind: Kind,
    policy: Policy,
    shown: Shown,
}

#[derive(Clone, Debug)]
enum Kind {
    One(SharedLimiter<AnyStore>),
    Several(SharedPolicyLimiter<AnyStore>),
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Decide and charge.
    Hit(u64),
    /// Would a hit pass? Nothing is charged.
    Peek(u64),
    /// Grant as much as fits. For a single limit.
    Take(u64),
    /// Charge without asking.
    Charge(u64),
    /// Give back.
    Refund(u64),
    /// Put the units in use at a number.
    Set(u64),
    /// Read the units in use, from the store alone.
    Usage,
}

impl Limiter {
    /// On a store.
    ///
    /// # Errors
    /// When the store cannot hold it.
    pub fn new(
        store: &AnyStore,
        namespace: &str,
        policy: &Policy,
        on_failure: OnFailure,
        deadline: Option<Duration>,
    ) -> Result<Limiter, Error> {
        let kind = match policy.limits() {
            [limit] => {
                let mut one =
                    SharedLimiter::on(store, namespace, limit.clone())?.on_failure(on_failure)?;
                if let Some(deadline) = deadline {
                    one = one.deadline(deadline);
                }
                Kind::One(one)
            }
            _ => {
                let several = SharedPolicyLimiter::on(store, namespace, policy.clone())?;
                let mut several = several.on_failure(on_failure)?;
                if let Some(deadline) = deadline {
                    several = several.deadline(deadline);
                }
                Kind::Several(several)
            }
        };
        let shown = Shown::new(policy.limits());
        Ok(Limiter { kind, policy: policy.clone(), shown })
    }

    /// The limits, in the order of the decisions.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.policy.limits()
    }

    /// What headers say of them whatever is decided.
    #[must_use]
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Asks.
    ///
    /// # Errors
    /// When the store does not answer and nothing says what to do then.
    pub async fn ask<K: Key>(&self, key: K, operation: Operation) -> Result<Decision, Error> {
        match &self.kind {
            Kind::One(one) => match operation {
                Operation::Hit(cost) => one.hit_n(key, cost).await,
                Operation::Peek(cost) => one.peek_n(key, cost).await,
                Operation::Take(cost) => one.take(key, cost).await,
                Operation::Charge(units) => one.charge(key, units).await,
                Operation::Refund(units) => one.refund_n(key, units).await,
                Operation::Set(units) => one.set(key, units).await,
                Operation::Usage => one.peek(key).await.and_then(of_store),
            },
            Kind::Several(several) => {
                let decision = match operation {
                    Operation::Hit(cost) => several.hit_n(key, cost).await,
                    Operation::Peek(cost) => several.peek_n(key, cost).await,
                    Operation::Take(_) => {
                        return Err(Error::request(format!(
                            "take: works on one limit, and here are {}",
                            self.limits().len()
                        )));
                    }
                    Operation::Charge(units) => several.charge(key, units).await,
                    Operation::Refund(units) => several.refund_n(key, units).await,
                    Operation::Set(units) => several.set(key, units).await,
                    Operation::Usage => several.peek(key).await,
                };
                let decision = decision?;
                if operation == Operation::Usage {
                    return of_store(decision);
                }
                Ok(decision)
            }
        }
    }

    /// A hit without a future, where nobody has to be waited for; `None` where somebody has, and
    /// then nothing was asked.
    #[inline]
    pub fn hit_now<K: Key + ?Sized>(&self, key: &K, cost: u64) -> Option<Decision> {
        match &self.kind {
            Kind::One(one) => one.hit_now(key, cost),
            Kind::Several(_) => None,
        }
    }

    /// Forgets a key; true if it was not fresh.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        match &self.kind {
            Kind::One(one) => one.reset(key).await,
            Kind::Several(several) => several.reset(key).await,
        }
    }

    /// Forgets all keys.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn clear(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::One(one) => one.clear().await,
            Kind::Several(several) => several.clear().await,
        }
    }

    /// For decisions over several keys.
    pub fn item<K: Key>(&self, key: K, cost: u64) -> SharedItem<'_, AnyStore> {
        match &self.kind {
            Kind::One(one) => one.item(key, cost),
            Kind::Several(several) => several.item(key, cost),
        }
    }
}

/// Refuses what a rule for failures made up: it says nothing about the units in use.
fn of_store(decision: Decision) -> Result<Decision, Error> {
    let is_made_up = |outcome: &Outcome| {
        matches!(outcome.source(), Source::FailOpen | Source::FailClosed | Source::Fallback)
    };
    if decision.outcomes().iter().any(is_made_up) {
        return Err(Error::unavailable("nobody else knows how much is in use"));
    }
    Ok(decision)
}
