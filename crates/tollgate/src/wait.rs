//! Waiting for a turn: oldest first within the process, with a deadline, on anybody's timer.
//!
//! Who waits holds no reservation. The first in the queue of a key sleeps until its cost fits and hits again; the others wait for those before
//! them. Dropping the future takes nothing and lets the next one on.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::decision::Decision;
use crate::key::{Key, OwnedKey};
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::registry::lock;
use crate::store::Store;
use crate::time::Timestamp;

/// Who waits for which key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    waiting: Arc<Mutex<HashMap<OwnedKey, VecDeque<Arc<Ticket>>>>>,
}

#[derive(Debug)]
struct Ticket {
    cost: u64,
    waker: Mutex<Option<Waker>>,
}

/// A place in the queue of a key, left when it is dropped.
struct Place<'a> {
    queue: &'a Queue,
    key: OwnedKey,
    ticket: Arc<Ticket>,
}

impl Queue {
    fn join(&self, key: OwnedKey, cost: u64) -> (Place<'_>, u64) {
        let ticket = Arc::new(Ticket { cost, waker: Mutex::new(None) });
        let mut waiting = lock(&self.waiting);
        let line = waiting.entry(key.clone()).or_default();
        let ahead = line.iter().fold(0_u64, |sum, ticket| sum.saturating_add(ticket.cost));
        line.push_back(Arc::clone(&ticket));
        (Place { queue: self, key, ticket }, ahead)
    }
}

impl Place<'_> {
    fn is_first(&self) -> bool {
        let waiting = lock(&self.queue.waiting);
        let first = waiting.get(&self.key).and_then(VecDeque::front);
        first.is_some_and(|first| Arc::ptr_eq(first, &self.ticket))
    }

    /// Ready when this is the first in the line.
    fn poll_first(&self, cx: &Context<'_>) -> Poll<()> {
        // Set before the look, so that who leaves after it wakes us.
        *lock(&self.ticket.waker) = Some(cx.waker().clone());
        if self.is_first() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Place<'_> {
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

/// What a wait needs of a limiter: its calls, and the clock of this process.
pub(crate) trait Asked: Sync {
    type Error;

    fn now(&self) -> Timestamp;

    fn hit(
        &self,
        key: &OwnedKey,
        cost: u64,
    ) -> impl Future<Output = Result<Decision, Self::Error>> + Send;

    fn peek(
        &self,
        key: &OwnedKey,
        cost: u64,
    ) -> impl Future<Output = Result<Decision, Self::Error>> + Send;
}

impl<S: Store> Asked for Limiter<S> {
    type Error = Infallible;

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

/// Waiting for a turn on a limiter of any store.
pub(crate) struct Waiting<'a, A> {
    pub(crate) limiter: &'a A,
    pub(crate) limit: &'a Limit,
    pub(crate) queue: &'a Queue,
}

impl<A: Asked> Waiting<'_, A> {
    pub(crate) async fn wait<F: Future>(
        &self,
        key: OwnedKey,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F,
    ) -> Result<Decision, A::Error> {
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
            // To a refused elastic window the end of its state is what counts: asking again would push it.
            let Some(wait) = decision.retry_after().map(|wait| wait.min(decision.reset_after()))
            else {
                break;
            };
            if self.limiter.now() + wait > deadline {
                break;
            }
            sleep(wait).await;
            // A timer may be early: look before the next attempt.
            decision = self.limiter.peek(&key, cost).await?;
            if decision.allowed() {
                decision = self.limiter.hit(&key, cost).await?;
            }
        }
        Ok(decision)
    }

    /// What somebody is told who would have to wait behind others: a denial, also when the own cost alone would fit, and how long it would take at least.
    /// As far as all of them together fit the capacity that is exact; what goes beyond comes at the rate of the quota.
    async fn peek_with_those_ahead(
        &self,
        key: &OwnedKey,
        ahead: u64,
        cost: u64,
    ) -> Result<(Decision, Duration), A::Error> {
        let all = ahead.saturating_add(cost);
        let capacity = self.limit.burst();
        let mut decision = self.limiter.peek(key, all.min(capacity)).await?;
        let wait = decision.retry_after().unwrap_or_default();
        if decision.allowed() {
            decision = self.limiter.peek(key, capacity.saturating_add(1)).await?;
        }
        let beyond = u128::from(all.saturating_sub(capacity)) * self.limit.period().as_micros();
        let micros = u64::try_from(beyond / u128::from(self.limit.quota())).unwrap_or(u64::MAX);
        Ok((decision, wait.saturating_add(Duration::from_micros(micros))))
    }
}

impl<S: Store> Limiter<S> {
    /// Waits until the key may do something of that cost, and charges it then; at once the denial when that would take longer than `timeout`.
    /// Among those who wait for one key on this limiter and its clones the oldest comes first; a plain hit does not queue.
    ///
    /// `sleep` is the timer of your runtime, `tokio::time::sleep` for instance. The wait holds no reservation: dropping it takes nothing.
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
    /// let sleep = |span: Duration| async move { unreachable!("nothing to wait for in {span:?}") };
    ///
    /// assert!(limiter.wait("user:42", 1, Duration::from_secs(5), sleep).await.allowed());
    /// // The next one would take an hour: no use to wait.
    /// assert!(!limiter.wait("user:42", 1, Duration::from_secs(5), sleep).await.allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn wait<K: Key, F: Future>(
        &self,
        key: K,
        cost: u64,
        timeout: Duration,
        sleep: impl Fn(Duration) -> F,
    ) -> Decision {
        let waiting = Waiting { limiter: self, limit: &self.limit, queue: &self.queue };
        let Ok(decision) = waiting.wait(OwnedKey::new(&key), cost, timeout, sleep).await;
        decision
    }

    /// [`wait`](Limiter::wait) for programs without a runtime: the thread sleeps, for as long as the store's clock says; a clock that stands still keeps
    /// it waiting.
    ///
    /// ```
    /// use std::time::Duration;
    /// let limiter = tollgate::Memory::new().limiter("1000/second burst=1")?;
    /// for _ in 0..3 {
    ///     assert!(limiter.wait_blocking("user:42", 1, Duration::from_secs(5)).allowed());
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn wait_blocking<K: Key>(&self, key: K, cost: u64, timeout: Duration) -> Decision {
        let until = std::cell::Cell::new(None);
        let sleep = |span: Duration| {
            let wake_at = self.store.now() + span;
            until.set(Some(wake_at));
            poll_fn(
                move |_| {
                    if self.store.now() >= wake_at { Poll::Ready(()) } else { Poll::Pending }
                },
            )
        };
        let mut wait = pin!(self.wait(key, cost, timeout, sleep));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(decision) = wait.as_mut().poll(&mut cx) {
                return decision;
            }
            let now: Timestamp = self.store.now();
            let left = until.get().map_or(Duration::ZERO, |until| until.since(now));
            // Only ever woken early: by a place in the line, or for nothing.
            std::thread::park_timeout(left.max(Duration::from_micros(1)));
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
