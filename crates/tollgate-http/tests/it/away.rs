//! A shared store that can be made unavailable. `tollgate-actix` uses it in its tests as well.

use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::shared::{Ask, Guard, HitItem, InProcess, SharedStore};
use tollgate::{Error, Limit, Memory, Outcome, Store, Timestamp};

#[derive(Clone, Debug)]
pub(crate) struct Away {
    store: InProcess<Memory>,
    away: Arc<AtomicBool>,
}

type Prepared = <Memory as Store>::Prepared;

impl Away {
    pub(crate) fn new() -> Away {
        Away { store: InProcess::new(Memory::new()), away: Arc::default() }
    }

    pub(crate) fn set(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn answer<T>(&self) -> Option<Result<T, Error>> {
        let away = self.away.load(Ordering::SeqCst);
        away.then(|| Err(Error::unavailable("nobody answers at 192.0.2.99")))
    }

    /// The calls that reach the store: none while it is away.
    fn here<'a, T>(&self, asks: &'a [T]) -> &'a [T] {
        if self.away.load(Ordering::SeqCst) { &[] } else { asks }
    }
}

/// The answer, pending when first polled, so that a caller that polls only once misses it.
async fn later<T>(
    away: Option<Result<T, Error>>,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut first = true;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::take(&mut first) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
    match away {
        Some(error) => error,
        None => asked.await,
    }
}

impl SharedStore for Away {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        self.store.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        later(self.answer(), self.store.ask_each(self.here(asks), at, deadline))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        later(self.answer(), self.store.ask_together(self.here(hits), at, deadline))
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.store.clear(prepared)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        ready(self.answer().unwrap_or(Ok(())))
    }

    fn guard(&self) -> &Guard {
        self.store.guard()
    }
}
