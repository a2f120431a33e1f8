//! An in-process store behind the contract of shared ones.

use std::future::{Future, poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::{Ask, Guard, Mode, SharedStore};
use crate::algorithm::Op;
use crate::error::Error;
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::store::{Part, Store};
use crate::time::Timestamp;

/// Any [`Store`] as a [`SharedStore`] that answers at once: for programs that choose their store at
/// run time, and for the conformance suite.
///
/// It knows no runtime: its timer is the store's clock and looks at it whenever it is polled, and
/// it polls a task once. Neither matters to a store that never waits; to
/// [`wait`](super::SharedLimiter::wait) pass the in-process limiter instead.
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

impl<S: Store> InProcess<S> {
    /// This store. Denials are not remembered: asking is as fast.
    ///
    /// See the example of [`InProcess`].
    #[must_use]
    pub fn new(store: S) -> Self {
        InProcess::with_guard(store, Guard::builder().remember_denials(0).build())
    }

    /// This store behind a guard of your own.
    ///
    /// ```
    /// use tollgate::{Memory, shared::{Guard, InProcess}};
    /// let store = InProcess::with_guard(Memory::new(), Guard::default());
    /// ```
    #[must_use]
    pub fn with_guard(store: S, guard: Guard) -> Self {
        InProcess { store, guard: Arc::new(guard) }
    }
}

impl<S: Store + std::fmt::Debug> SharedStore for InProcess<S> {
    type Prepared = S::Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<S::Prepared, Error> {
        self.store.prepare(namespace, limit)
    }

    fn ask(
        &self,
        asks: &[Ask<'_, S::Prepared>],
        mode: Mode,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<S> {
        let now = at.unwrap_or_else(|| self.store.now());
        let mut decisions = Vec::with_capacity(asks.len());
        match mode {
            Mode::Each => decisions.extend(
                asks.iter().map(|ask| self.store.apply(ask.prepared, ask.key, now, ask.op)),
            ),
            Mode::Together => {
                let mut parts = Vec::with_capacity(asks.len());
                for &Ask { prepared, key, op } in asks {
                    let Op::Hit(cost) = op else {
                        return ready(Err(Error::request(format!(
                            "{op:?}: only hits go together"
                        ))));
                    };
                    parts.push(Part { prepared, key, cost });
                }
                self.store.hit_together(&parts, now, &mut |decision| decisions.push(decision));
            }
        }
        ready(Ok(decisions))
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

    fn reset(
        &self,
        prepared: &[S::Prepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<S> {
        let now = at.unwrap_or_else(|| self.store.now());
        let reset = |any, limit| self.store.reset(limit, key, now) | any;
        ready(Ok(prepared.iter().fold(false, reset)))
    }

    fn clear(
        &self,
        prepared: &S::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
        self.store.clear(prepared);
        ready(Ok(()))
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
        ready(Ok(()))
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<S> {
        let store = self.store.clone();
        let until = store.now() + span;
        poll_fn(move |cx| {
            if store.now() >= until {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::pin::pin!(task).poll(&mut cx);
    }
}
