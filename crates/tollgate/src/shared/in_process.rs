//! An in-process store that implements the contract of shared stores.

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use super::runtime::{NoRuntime, Runtime};
use super::{Ask, Guard, GuardBuilder, HitItem, SharedStore};
use crate::algorithm::Op;
use crate::clock::Clock;
use crate::error::Error;
use crate::hold::{HoldCall, HoldId, HoldReply};
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::store::Store;
use crate::time::Timestamp;

/// Any [`Store`] as a [`SharedStore`] that answers without waiting. It is for programs that choose
/// their store at run time, and for the conformance suite.
///
/// It has no async runtime: its timer only reads the store's clock when it is polled, and a spawned
/// task is polled only once. That is enough for a store that never waits. To
/// [`wait`](super::SharedLimiter::wait) for a hit, use the in-process limiter instead, or a store
/// [with a runtime](InProcess::with_runtime).
///
/// ```
/// use tollgate::Memory;
/// use tollgate::shared::{InProcess, SharedLimiter};
///
/// # fn block_on<F: Future>(f: F) -> F::Output {
/// #     let mut f = std::pin::pin!(f);
/// #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop { if let std::task::Poll::Ready(r) = f.as_mut().poll(&mut cx) { return r } }
/// # }
/// # block_on(async {
/// let store = InProcess::new(Memory::new());
/// let limiter = SharedLimiter::new(&store, "", "1/hour")?;
/// assert!(limiter.hit("alice").await?.allowed());
/// assert!(!limiter.hit("alice").await?.allowed());
/// # Ok::<(), tollgate::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct InProcess<S> {
    store: S,
    guard: Arc<Guard>,
}

impl<S: Store + std::fmt::Debug> InProcess<S> {
    /// Wraps a store. Denials are not remembered, because asking the store is as fast.
    ///
    /// See the example of [`InProcess`].
    #[must_use]
    pub fn new(store: S) -> Self {
        InProcess::with_guard(store, Guard::builder().remember_denials(0))
    }

    /// Wraps a store with a guard that has these settings.
    ///
    /// ```
    /// use tollgate::{Memory, shared::{Guard, InProcess}};
    /// let store = InProcess::with_guard(Memory::new(), Guard::builder());
    /// ```
    #[must_use]
    pub fn with_guard(store: S, guard: GuardBuilder) -> Self {
        let clock = NoRuntime(Arc::new(StoreClock(store.clone())));
        InProcess { guard: Arc::new(guard.build_on(clock)), store }
    }

    /// Wraps a store with the timer and the tasks of an async runtime, so that limiters can
    /// [`wait`](super::SharedLimiter::wait) for a hit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Memory;
    /// use tollgate::shared::{InProcess, Runtime, SharedLimiter, Task};
    ///
    /// /// A timer that blocks, for a program with one task.
    /// #[derive(Debug)]
    /// struct Blocking;
    ///
    /// impl Runtime for Blocking {
    ///     fn sleep(&self, span: Duration) -> Task {
    ///         Box::pin(async move { std::thread::park_timeout(span) })
    ///     }
    ///
    ///     fn spawn(&self, task: Task) {
    ///         drop(task);
    ///     }
    /// }
    ///
    /// let store = InProcess::with_runtime(Memory::new(), Blocking);
    /// let limiter = SharedLimiter::new(&store, "", "20/second burst=1")?;
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     let mut f = std::pin::pin!(f);
    /// #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop { if let std::task::Poll::Ready(r) = f.as_mut().poll(&mut cx) { return r } }
    /// # }
    /// # block_on(async {
    /// for _ in 0..2 {
    ///     assert!(limiter.wait("alice", 1, Duration::from_secs(1)).await?.allowed());
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn with_runtime(store: S, runtime: impl Runtime) -> Self {
        let guard = Guard::builder().remember_denials(0).build_on(runtime);
        InProcess { guard: Arc::new(guard), store }
    }
}

/// The clock of an in-process store.
#[derive(Debug)]
struct StoreClock<S>(S);

impl<S: Store + std::fmt::Debug> Clock for StoreClock<S> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl<S: Store + std::fmt::Debug> SharedStore for InProcess<S> {
    type Prepared = S::Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<S::Prepared, Error> {
        self.store.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, S::Prepared>],
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<S> {
        let now = at.unwrap_or_else(|| self.store.now());
        let apply = |ask: &Ask<'_, _>| self.store.apply(ask.prepared, ask.key, now, ask.op);
        ready(Ok(asks.iter().map(apply).collect()))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, S::Prepared>],
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<S> {
        let now = at.unwrap_or_else(|| self.store.now());
        ready(Ok(self.store.hit_together(hits, now)))
    }

    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<HoldReply, Error>> + Send + use<S> {
        let now = at.unwrap_or_else(|| self.store.now());
        ready(self.store.hold(namespace, id, call, now))
    }

    fn keeps_holds(&self) -> Result<(), Error> {
        self.store.keeps_holds()
    }

    fn clear(
        &self,
        prepared: &S::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
        self.store.clear(prepared);
        ready(Ok(()))
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    #[inline]
    fn try_now(
        &self,
        prepared: &S::Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        if let (Op::Hit(cost), None) = (op, at) {
            return Some(self.store.hit_now(prepared, &key, cost));
        }
        let now = at.unwrap_or_else(|| self.store.now());
        Some(self.store.apply(prepared, key, now, op))
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
        ready(Ok(()))
    }
}
