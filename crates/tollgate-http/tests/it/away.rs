//! A shared store that can be made unavailable. `tollgate-actix` uses it in its tests as well.

use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::shared::{Ask, Guard, InProcess, Mode, SharedStore};
use tollgate::{Error, KeyRef, Limit, Memory, Outcome, Store, Timestamp};

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
}

impl SharedStore for Away {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        self.store.prepare(namespace, limit)
    }

    fn ask(
        &self,
        asks: &[Ask<'_, Prepared>],
        mode: Mode,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let away = self.answer();
        let asked = away.is_none().then(|| self.store.ask(asks, mode, at));
        async move {
            // Pending once, to catch callers that poll a call only once.
            let mut first = true;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::take(&mut first) {
                    return std::task::Poll::Pending;
                }
                std::task::Poll::Ready(())
            })
            .await;
            match (away, asked) {
                (Some(error), _) => error,
                (None, Some(asked)) => asked.await,
                (None, None) => unreachable!("asked unless away"),
            }
        }
    }

    fn reset(
        &self,
        prepared: &[Prepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        self.store.reset(prepared, key, at)
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

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.store.sleep(span)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.store.spawn(task);
    }
}
