//! Waiting until a hit is allowed. Within the process the caller that came first is served first. A
//! wait has a deadline and works with any timer.
//!
//! A waiting caller holds no reservation. The first caller in the queue of a key sleeps until its
//! cost fits, and then hits again. The other callers wait until they are first. If a future is
//! dropped, nothing was charged for it, and the next caller continues.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

#[cfg(not(loom))]
use crate::clock::Clock;
use crate::decision::Decision;
#[cfg(not(loom))]
use crate::direct::Direct;
#[cfg(not(loom))]
use crate::key::KeyRef;
use crate::key::{Key, OwnedKey};
use crate::keyed::lock;
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::outcome::Outcome;
use crate::store::Store;
use crate::time::Timestamp;

/// The waiting callers of each key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    waiting: Arc<Mutex<HashMap<OwnedKey, VecDeque<Arc<Ticket>>>>>,
}

#[derive(Debug)]
struct Ticket {
    cost: u64,
    waker: Mutex<Option<Waker>>,
}

/// The place of a caller in the queue of a key. Dropping it leaves the queue.
struct QueuePlace<'a> {
    queue: &'a Queue,
    key: OwnedKey,
    ticket: Arc<Ticket>,
}

impl Queue {
    fn join(&self, key: OwnedKey, cost: u64) -> (QueuePlace<'_>, u64) {
        let ticket = Arc::new(Ticket { cost, waker: Mutex::new(None) });
        let mut waiting = lock(&self.waiting);
        let line = waiting.entry(key.clone()).or_default();
        let ahead = line.iter().fold(0_u64, |sum, ticket| sum.saturating_add(ticket.cost));
        line.push_back(Arc::clone(&ticket));
        (QueuePlace { queue: self, key, ticket }, ahead)
    }
}

impl QueuePlace<'_> {
    fn is_first(&self) -> bool {
        let waiting = lock(&self.queue.waiting);
        let first = waiting.get(&self.key).and_then(VecDeque::front);
        first.is_some_and(|first| Arc::ptr_eq(first, &self.ticket))
    }

    /// Polls whether this caller is the first in the queue.
    fn poll_first(&self, cx: &Context<'_>) -> Poll<()> {
        // The waker is set before the check, so that a caller that leaves after the check wakes
        // this one.
        *lock(&self.ticket.waker) = Some(cx.waker().clone());
        if self.is_first() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.queue.waiting);
        let Some(line) = waiting.get_mut(&self.key) else { return };
        line.retain(|ticket| !Arc::ptr_eq(ticket, &self.ticket));
        let next = line.front().cloned();
        if line.is_empty() {
            waiting.remove(&self.key);
        }
        drop(waiting);
        if let Some(waker) = next.and_then(|next| lock(&next.waker).take()) {
            waker.wake();
        }
    }
}

/// The parts of an outcome or decision that a wait needs.
pub(crate) trait Answer {
    fn allowed(&self) -> bool;

    /// Returns the wait until the hit would pass, if there is no other hit. `None` if it never
    /// passes.
    fn retry_after(&self) -> Option<Duration>;

    /// Returns the wait until the next attempt. It is never longer than the time until the key is
    /// fresh: a denied hit extends an elastic window, so its wait may be longer than that.
    fn pause(&self) -> Option<Duration>;
}

impl Answer for Outcome {
    fn allowed(&self) -> bool {
        Outcome::allowed(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        Outcome::retry_after(self)
    }

    fn pause(&self) -> Option<Duration> {
        Outcome::retry_after(self).map(|wait| wait.min(self.reset_after()))
    }
}

impl Answer for Decision {
    fn allowed(&self) -> bool {
        Decision::allowed(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        Decision::retry_after(self)
    }

    fn pause(&self) -> Option<Duration> {
        let pauses = self.outcomes().iter().map(Answer::pause);
        pauses.reduce(|a, b| Some(a?.max(b?))).flatten()
    }
}

/// The calls and the clock of a limiter that a wait needs.
pub(crate) trait Asked: Sync {
    type Error;
    type Answer: Answer;

    fn now(&self) -> Timestamp;

    fn hit(
        &self,
        key: &OwnedKey,
        cost: u64,
    ) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;

    fn peek(
        &self,
        key: &OwnedKey,
        cost: u64,
    ) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;
}

impl<S: Store> Asked for Limiter<S> {
    type Error = Infallible;
    type Answer = Decision;

    fn now(&self) -> Timestamp {
        self.store.now()
    }

    async fn hit(&self, key: &OwnedKey, cost: u64) -> Result<Decision, Infallible> {
        Ok(self.hit_n(key, cost))
    }

    async fn peek(&self, key: &OwnedKey, cost: u64) -> Result<Decision, Infallible> {
        Ok(self.peek_n(key, cost))
    }
}

#[cfg(not(loom))]
impl<C: Clock> Asked for Direct<C> {
    type Error = Infallible;
    type Answer = Outcome;

    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    async fn hit(&self, _key: &OwnedKey, cost: u64) -> Result<Outcome, Infallible> {
        Ok(self.hit_n(cost))
    }

    async fn peek(&self, _key: &OwnedKey, cost: u64) -> Result<Outcome, Infallible> {
        Ok(self.peek_n(cost))
    }
}

/// A limiter of any store, its limits and its queue, as a wait needs them.
pub(crate) struct Waiting<'a, A> {
    pub(crate) limiter: &'a A,
    /// The limits, all of which must admit the hit.
    pub(crate) limits: &'a [Limit],
    pub(crate) queue: &'a Queue,
}

impl<A: Asked> Waiting<'_, A> {
    pub(crate) async fn wait<F: Future>(
        &self,
        key: OwnedKey,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F,
    ) -> Result<A::Answer, A::Error> {
        let deadline = self.limiter.now() + timeout;
        let (place, ahead) = self.queue.join(key.clone(), cost);
        if ahead > 0 {
            let (decision, least) = self.peek_with_those_ahead(&key, ahead, cost).await?;
            if self.limiter.now() + least > deadline {
                return Ok(decision);
            }
            let left = deadline.since(self.limiter.now());
            let mut timer = pin!(sleep(left));
            let first = poll_fn(|cx| match place.poll_first(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => timer.as_mut().poll(cx).map(|_| false),
            });
            if !first.await {
                return Ok(self.peek_with_those_ahead(&key, ahead, cost).await?.0);
            }
        }
        let mut decision = self.limiter.hit(&key, cost).await?;
        while !decision.allowed() {
            let Some(wait) = decision.pause() else { break };
            if self.limiter.now() + wait > deadline {
                break;
            }
            sleep(wait).await;
            // A timer may fire too early, so peek before the next attempt.
            decision = self.limiter.peek(&key, cost).await?;
            if decision.allowed() {
                decision = self.limiter.hit(&key, cost).await?;
            }
        }
        Ok(decision)
    }

    /// Returns a denial for a caller that has to wait behind other callers, even if its own cost
    /// would fit, and the shortest possible wait. The wait is exact if all costs together fit the
    /// capacity. For the units beyond the capacity it is computed from the quota and the period.
    async fn peek_with_those_ahead(
        &self,
        key: &OwnedKey,
        ahead: u64,
        cost: u64,
    ) -> Result<(A::Answer, Duration), A::Error> {
        let all = ahead.saturating_add(cost);
        let capacity = self.limits.iter().map(Limit::burst).min().unwrap_or_default();
        let mut decision = self.limiter.peek(key, all.min(capacity)).await?;
        let wait = decision.retry_after().unwrap_or_default();
        if decision.allowed() {
            decision = self.limiter.peek(key, capacity.saturating_add(1)).await?;
        }
        let beyond = |limit: &Limit| {
            let units = u128::from(all.saturating_sub(limit.burst()));
            let micros = units * limit.period().as_micros() / u128::from(limit.quota());
            u64::try_from(micros).unwrap_or(u64::MAX)
        };
        let micros = self.limits.iter().map(beyond).max().unwrap_or_default();
        Ok((decision, wait.saturating_add(Duration::from_micros(micros))))
    }

    /// Runs [`wait`](Waiting::wait) on this thread, by the clock of the limiter.
    fn wait_blocking(
        &self,
        key: OwnedKey,
        cost: u64,
        timeout: Duration,
    ) -> Result<A::Answer, A::Error> {
        let until = std::cell::Cell::new(None);
        let sleep = |span: Duration| {
            let wake_at = self.limiter.now() + span;
            until.set(Some(wake_at));
            let is_over = move || self.limiter.now() >= wake_at;
            poll_fn(move |_| if is_over() { Poll::Ready(()) } else { Poll::Pending })
        };
        let mut wait = pin!(self.wait(key, cost, timeout, sleep));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = wait.as_mut().poll(&mut cx) {
                return answer;
            }
            let now = self.limiter.now();
            let left = until.get().map_or(Duration::ZERO, |until: Timestamp| until.since(now));
            // The thread wakes up earlier only if it has become first in the queue, or spuriously.
            std::thread::park_timeout(left.max(Duration::from_micros(1)));
        }
    }
}

/// The key under which callers of a limit without keys wait.
#[cfg(not(loom))]
const NO_KEY: KeyRef<'_> = KeyRef::plain(b"");

impl<S: Store> Limiter<S> {
    /// Waits until a hit of this cost is allowed, and charges the cost then. Returns the denial
    /// immediately if that would take longer than `timeout`. Of the callers that wait for one key
    /// on this limiter and its clones, the one that came first is served first. A plain hit does
    /// not queue.
    ///
    /// `sleep` is the timer of your runtime, for instance `tokio::time::sleep`. The wait holds no
    /// reservation: if the future is dropped, nothing is charged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Memory};
    ///
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     let mut f = std::pin::pin!(f);
    /// #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop { if let std::task::Poll::Ready(r) = f.as_mut().poll(&mut cx) { return r } }
    /// # }
    /// # block_on(async {
    /// let limiter = Memory::new().limiter(Limit::per_hour(1))?;
    /// let sleep = |span: Duration| async move { unreachable!("no wait of {span:?} is needed") };
    ///
    /// assert!(limiter.wait("user:42", 1, Duration::from_secs(5), sleep).await.allowed());
    /// // The next hit would have to wait for an hour, so it is denied immediately.
    /// assert!(!limiter.wait("user:42", 1, Duration::from_secs(5), sleep).await.allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub async fn wait<K: Key, F: Future>(
        &self,
        key: K,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F,
    ) -> Decision {
        let Ok(decision) = self.waiting().wait(OwnedKey::new(&key), cost, timeout, sleep).await;
        decision
    }

    fn waiting(&self) -> Waiting<'_, Self> {
        Waiting { limiter: self, limits: self.limits(), queue: &self.queue }
    }

    /// Waits as [`wait`](Limiter::wait) does, for programs without an async runtime: the thread
    /// sleeps. The wait ends by the store's clock, so it never ends if that clock stands still.
    ///
    /// ```
    /// use std::time::Duration;
    /// let limiter = tollgate::Memory::new().limiter("1000/second burst=1")?;
    /// for _ in 0..3 {
    ///     assert!(limiter.wait_blocking("user:42", 1, Duration::from_secs(5)).allowed());
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn wait_blocking<K: Key>(&self, key: K, cost: u64, timeout: Duration) -> Decision {
        let Ok(decision) = self.waiting().wait_blocking(OwnedKey::new(&key), cost, timeout);
        decision
    }
}

#[cfg(not(loom))]
impl<C: Clock> Direct<C> {
    /// Waits until a hit of this cost is allowed, and charges the cost then. See [`Limiter::wait`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Direct, Limit};
    ///
    /// # async fn example(sleep: impl Fn(Duration) -> std::future::Ready<()>) -> Result<(), tollgate::Error> {
    /// let limiter = Direct::new(Limit::per_second(5))?;
    /// let decision = limiter.wait(1, Duration::from_secs(5), sleep).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub async fn wait<F: Future>(
        &self,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F,
    ) -> Outcome {
        let Ok(decision) = self.waiting().wait(OwnedKey::new(&NO_KEY), cost, timeout, sleep).await;
        decision
    }

    /// Waits as [`wait`](Direct::wait) does, for programs without an async runtime. See
    /// [`Limiter::wait_blocking`].
    ///
    /// ```
    /// use std::time::Duration;
    /// let limiter = tollgate::Direct::new("1000/second burst=1")?;
    /// for _ in 0..3 {
    ///     assert!(limiter.wait_blocking(1, Duration::from_secs(5)).allowed());
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn wait_blocking(&self, cost: u64, timeout: Duration) -> Outcome {
        let Ok(decision) = self.waiting().wait_blocking(OwnedKey::new(&NO_KEY), cost, timeout);
        decision
    }

    fn waiting(&self) -> Waiting<'_, Self> {
        let limits = std::slice::from_ref(self.limit());
        Waiting { limiter: self, limits, queue: self.queue() }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
