//! Any limiter of any store behind one trait. Calls are static, and a store in this process needs
//! no box.

use std::future::{Future, ready};
use std::time::Duration;

use tollgate::shared::{SharedLimiter, SharedStore};
use tollgate::{Decision, Error, Key, Limit, Limiter, Store};

use crate::key_by::RequestKey;

/// A limiter that decides on requests: [`Limiter`] and [`SharedLimiter`].
pub trait Decider: Clone + Send + Sync + 'static {
    /// Whether the futures of `hit`, `charge` and `refund` are ready when they are first polled, as
    /// those of in-process stores are.
    const NEVER_WAITS: bool = false;

    /// Decides and charges.
    fn hit(
        &self,
        key: &RequestKey,
        cost: u64,
    ) -> impl Future<Output = Result<Decision, Error>> + Send;

    /// [`hit`](Decider::hit) without a future; `None` where the store has to be waited for, and
    /// then nothing was charged.
    fn try_now<K: Key>(&self, _key: &K, _cost: u64) -> Option<Result<Decision, Error>> {
        None
    }

    /// Charges without checking the limit.
    fn charge(
        &self,
        key: &RequestKey,
        units: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Refunds at most that many of the units that the decision charged.
    fn refund(
        &self,
        key: &RequestKey,
        decision: &Decision,
        units: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The limits, in the order of the outcomes.
    fn limits(&self) -> &[Limit];

    /// Decides, and waits for up to `timeout` if that helps; `sleep` is the timer of the runtime.
    fn wait<F: Future<Output = ()> + Send>(
        &self,
        key: &RequestKey,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F + Send + Sync,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        async move {
            let mut left = timeout;
            loop {
                let decision = self.hit(key, cost).await?;
                let Some(wait) = decision.retry_after() else { return Ok(decision) };
                if decision.allowed() || wait > left {
                    return Ok(decision);
                }
                left -= wait;
                sleep(wait).await;
            }
        }
    }
}

impl<S: Store> Decider for Limiter<S> {
    const NEVER_WAITS: bool = true;

    fn hit(
        &self,
        key: &RequestKey,
        cost: u64,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        ready(Ok(self.hit_n(key, cost)))
    }

    #[inline(always)]
    fn try_now<K: Key>(&self, key: &K, cost: u64) -> Option<Result<Decision, Error>> {
        Some(Ok(self.hit_n(key, cost)))
    }

    fn charge(
        &self,
        key: &RequestKey,
        units: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = Limiter::charge(self, key, units);
        ready(Ok(()))
    }

    fn refund(
        &self,
        key: &RequestKey,
        decision: &Decision,
        units: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = self.refund_part(key, decision, units);
        ready(Ok(()))
    }

    fn limits(&self) -> &[Limit] {
        Limiter::limits(self)
    }

    async fn wait<F: Future<Output = ()> + Send>(
        &self,
        key: &RequestKey,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F + Send + Sync,
    ) -> Result<Decision, Error> {
        Ok(Limiter::wait(self, key, cost, timeout, sleep).await)
    }
}

impl<S: SharedStore> Decider for SharedLimiter<S> {
    async fn hit(&self, key: &RequestKey, cost: u64) -> Result<Decision, Error> {
        self.hit_n(key, cost).await
    }

    #[inline]
    fn try_now<K: Key>(&self, key: &K, cost: u64) -> Option<Result<Decision, Error>> {
        self.hit_now(key, cost).map(Ok)
    }

    async fn charge(&self, key: &RequestKey, units: u64) -> Result<(), Error> {
        SharedLimiter::charge(self, key, units).await.map(|_| ())
    }

    async fn refund(&self, key: &RequestKey, decision: &Decision, units: u64) -> Result<(), Error> {
        self.refund_part(key, decision, units).await.map(|_| ())
    }

    fn limits(&self) -> &[Limit] {
        SharedLimiter::limits(self)
    }

    async fn wait<F: Future<Output = ()> + Send>(
        &self,
        key: &RequestKey,
        cost: u64,
        timeout: Duration,
        _sleep: impl Fn(Duration) -> F + Send + Sync,
    ) -> Result<Decision, Error> {
        SharedLimiter::wait(self, key, cost, timeout).await
    }
}
