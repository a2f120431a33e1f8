//! The limits of a rule on the store, with all operations behind one call.

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::{AnyStore, OnFailure, SharedItem, SharedLimiter};
use tollgate::{Decision, Error, Key, Limit, Outcome, Policy, Source};
use tollgate_http::LimitHeaders;

/// The limits of a rule on the store.
#[derive(Clone, Debug)]
pub struct Limiter {
    shared: SharedLimiter<AnyStore>,
    headers: Arc<LimitHeaders>,
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
        let mut shared = SharedLimiter::new(store, namespace, policy)?.on_failure(on_failure)?;
        if let Some(deadline) = deadline {
            shared = shared.deadline(deadline);
        }
        let headers = Arc::new(LimitHeaders::new(policy.limits()));
        Ok(Limiter { shared, headers })
    }

    /// The limits, in the order of the decisions.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.shared.limits()
    }

    /// What headers say of them whatever is decided.
    #[must_use]
    pub fn headers(&self) -> &Arc<LimitHeaders> {
        &self.headers
    }

    /// Asks.
    ///
    /// # Errors
    /// When the store does not answer and nothing says what to do then.
    pub async fn ask<K: Key>(&self, key: K, operation: Operation) -> Result<Decision, Error> {
        let shared = &self.shared;
        match operation {
            Operation::Hit(cost) => shared.hit_n(key, cost).await,
            Operation::Peek(cost) => shared.peek_n(key, cost).await,
            Operation::Take(_) if self.limits().len() > 1 => Err(Error::request(format!(
                "take: works on one limit, and here are {}",
                self.limits().len()
            ))),
            Operation::Take(cost) => shared.take(key, cost).await,
            Operation::Charge(units) => shared.charge(key, units).await,
            Operation::Refund(units) => shared.refund_n(key, units).await,
            Operation::Set(units) => shared.set(key, units).await,
            Operation::Usage => shared.peek(key).await.and_then(of_store),
        }
    }

    /// A hit without a future, where nobody has to be waited for; `None` where somebody has, and
    /// then nothing was asked.
    #[inline]
    pub fn hit_now<K: Key + ?Sized>(&self, key: &K, cost: u64) -> Option<Decision> {
        self.shared.hit_now(key, cost)
    }

    /// Forgets a key; true if it was not fresh.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, Error> {
        self.shared.reset(key).await
    }

    /// Forgets all keys.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn clear(&self) -> Result<(), Error> {
        self.shared.clear().await
    }

    /// For decisions over several keys.
    pub fn item<K: Key>(&self, key: K, cost: u64) -> SharedItem<'_, AnyStore> {
        self.shared.item(key, cost)
    }
}

/// Refuses what a rule for failures made up: it says nothing about the units in use.
fn of_store(decision: Decision) -> Result<Decision, Error> {
    let is_made_up = |outcome: &Outcome| {
        matches!(outcome.source(), Source::FailOpen | Source::FailClosed | Source::Fallback)
    };
    if decision.outcomes().iter().any(is_made_up) {
        return Err(Error::unavailable("only the store knows the units in use"));
    }
    Ok(decision)
}
