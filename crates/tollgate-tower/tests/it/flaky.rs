//! A shared store that answers late, or not at all on request.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::shared::{Ask, Guard, InProcess, Mode, SharedLimiter, SharedStore};
use tollgate::{Error, KeyRef, Limit, ManualClock, Memory, Outcome, Store, Timestamp};

use crate::net::stopped;

type Inner = InProcess<Memory<ManualClock>>;

#[derive(Clone, Debug)]
pub(crate) struct Flaky {
    inner: Inner,
    down: Arc<AtomicBool>,
}

impl Flaky {
    pub(crate) fn new() -> Flaky {
        // Without a breaker, so that every call gets its own failure.
        let guard = Guard::builder().remember_denials(0).open_after(u32::MAX).build();
        Flaky { inner: InProcess::with_guard(stopped(), guard), down: Arc::default() }
    }

    pub(crate) fn limiter(&self, limit: &str) -> SharedLimiter<Flaky> {
        SharedLimiter::new(self, "", limit).unwrap()
    }

    pub(crate) fn fail(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    fn check_up(&self) -> Result<(), Error> {
        if self.down.load(Ordering::Relaxed) {
            return Err(Error::unavailable("switched off"));
        }
        Ok(())
    }
}

impl SharedStore for Flaky {
    type Prepared = <Memory<ManualClock> as Store>::Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error> {
        SharedStore::prepare(&self.inner, namespace, limit)
    }

    fn ask(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        mode: Mode,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let asked = self.check_up().map(|()| self.inner.ask(asks, mode, at));
        async move {
            // Never ready when it is first polled.
            tokio::task::yield_now().await;
            asked?.await
        }
    }

    fn reset(
        &self,
        prepared: &[Self::Prepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        self.inner.reset(prepared, key, at)
    }

    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        SharedStore::clear(&self.inner, prepared)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.inner.check()
    }

    fn guard(&self) -> &Guard {
        self.inner.guard()
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        tokio::time::sleep(span)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }
}
