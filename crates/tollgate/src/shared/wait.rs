//! Waiting until a hit on a shared store is allowed. If a wait is dropped while its hit is in
//! progress, the hit is refunded.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::asking::LimiterParts;
use super::{SharedLimiter, SharedStore};
use crate::decision::Decision;
use crate::error::Error;
use crate::key::{Key, OwnedKey};
use crate::outcome::Receipt;
use crate::time::Timestamp;
use crate::wait::{Asked, Waiting};

impl<S: SharedStore> SharedLimiter<S> {
    /// Waits until a hit of this cost is allowed, and charges the cost then. Returns the denial
    /// immediately if that would take longer than `timeout`. It uses the timer of the store. See
    /// [`Limiter::wait`](crate::Limiter::wait).
    ///
    /// The wait holds no reservation. If it is dropped while a hit is in progress, and the hit is
    /// then allowed, the hit is refunded. The refund is sent only once, so it is lost if the store
    /// fails.
    ///
    /// # Errors
    /// Fails if the store does not answer and the limiter has no rule for that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Memory, shared::{InProcess, SharedLimiter}};
    /// # async fn example() -> Result<(), tollgate::Error> {
    /// let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "10/second")?;
    /// let decision = limiter.wait("user:42", 1, Duration::from_secs(1)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait<K: Key>(
        &self,
        key: K,
        cost: u64,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        let waiting = Waiting { limiter: self, limits: self.limits(), queue: &self.queue };
        let sleep = |span| self.limits.store.guard().runtime().sleep(span);
        waiting.wait(OwnedKey::new(&key), cost, timeout, sleep).await
    }
}

impl<S: SharedStore> Asked for SharedLimiter<S> {
    type Error = Error;
    type Answer = Decision;

    fn now(&self) -> Timestamp {
        self.limits.store.guard().now()
    }

    async fn hit(&self, key: &OwnedKey, cost: u64) -> Result<Decision, Error> {
        InFlight::new(self.limits.clone(), key.clone(), cost).await
    }

    async fn peek(&self, key: &OwnedKey, cost: u64) -> Result<Decision, Error> {
        self.peek_n(key, cost).await
    }
}

type Call = Pin<Box<dyn Future<Output = Result<Decision, Error>> + Send>>;

/// A hit that is refunded if it is dropped before it ends.
struct InFlight<S: SharedStore> {
    limits: LimiterParts<S>,
    key: OwnedKey,
    call: Option<Call>,
}

impl<S: SharedStore> InFlight<S> {
    fn new(limits: LimiterParts<S>, key: OwnedKey, cost: u64) -> Self {
        let (asked, asked_key) = (limits.clone(), key.clone());
        let call: Call = Box::pin(async move { asked.hit(asked.terms(), &asked_key, cost).await });
        InFlight { limits, key, call: Some(call) }
    }
}

impl<S: SharedStore> Future for InFlight<S> {
    type Output = Result<Decision, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let result = std::task::ready!(call.as_mut().poll(cx));
        self.call = None;
        Poll::Ready(result)
    }
}

impl<S: SharedStore> Unpin for InFlight<S> {}

impl<S: SharedStore> Drop for InFlight<S> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let (limits, key) = (self.limits.clone(), self.key.clone());
        self.limits.store.guard().runtime().spawn(Box::pin(async move {
            if let Ok(decision) = call.await
                && decision.charged() > 0
            {
                let receipts: Vec<(usize, Receipt)> = decision.receipts().enumerate().collect();
                if let Err(error) = limits.refund(limits.terms(), &key, &receipts).await {
                    tracing::warn!(%error, "a dropped wait was charged, and the refund failed");
                }
            }
        }));
    }
}
