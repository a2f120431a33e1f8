//! A shared store that answers late, or not at all on request.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::shared::{Ask, Guard, HitItem, InProcess, Runtime, SharedLimiter, SharedStore, Task};
use tollgate::{Error, Limit, ManualClock, Memory, Outcome, Store, Timestamp};

use crate::net::stopped;

type Inner = InProcess<Memory<ManualClock>>;

#[derive(Clone, Debug)]
pub(crate) struct Flaky {
    inner: Inner,
    guard: Arc<Guard>,
    down: Arc<AtomicBool>,
}

impl Flaky {
    pub(crate) fn new() -> Flaky {
        // Without a breaker, so that every call gets its own failure.
        let guard = Guard::builder().remember_denials(0).open_after(u32::MAX).build_on(Tokio);
        Flaky { inner: InProcess::new(stopped()), guard: Arc::new(guard), down: Arc::default() }
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

    fn ask_each(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        later(self.check_up().map(|()| self.inner.ask_each(asks, at, deadline)))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        later(self.check_up().map(|()| self.inner.ask_together(hits, at, deadline)))
    }

    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        SharedStore::clear(&self.inner, prepared)
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// Never ready when it is first polled.
async fn later<T>(
    asked: Result<impl Future<Output = Result<T, Error>>, Error>,
) -> Result<T, Error> {
    tokio::task::yield_now().await;
    asked?.await
}

#[derive(Debug)]
struct Tokio;

impl Runtime for Tokio {
    fn sleep(&self, span: Duration) -> Task {
        Box::pin(tokio::time::sleep(span))
    }

    fn spawn(&self, task: Task) {
        tokio::spawn(task);
    }
}
