//! A store chosen at run time.

use std::any::Any;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Figure, Guard, Mode, SharedStore};
use crate::algorithm::Op;
use crate::error::Error;
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Any [`SharedStore`] behind one type, for programs that learn from their configuration which one
/// it is. What the store answers at once is answered at once; only what waits is boxed.
///
/// ```
/// use tollgate::{Memory, shared::{AnyStore, InProcess, SharedLimiter}};
/// let store = AnyStore::new(InProcess::new(Memory::new()));
/// let limiter = SharedLimiter::new(&store, "", "10/second")?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyStore(Arc<dyn Erased>);

/// A limit as [`AnyStore`] holds it.
#[derive(Clone)]
pub struct AnyPrepared(Arc<dyn Any + Send + Sync>);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// [`SharedStore`] without its types. Prepared limits that another store made are a mistake of the
/// caller's, and an error.
trait Erased: Debug + Send + Sync {
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<AnyPrepared, Error>;
    fn ask(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        mode: Mode,
        at: Option<Timestamp>,
        deadline: Option<Duration>,
    ) -> Boxed<Result<Vec<Outcome>, Error>>;
    fn try_now(
        &self,
        prepared: &AnyPrepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome>;
    fn reset(
        &self,
        prepared: &[AnyPrepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> Boxed<Result<bool, Error>>;
    fn clear(&self, prepared: &AnyPrepared) -> Boxed<Result<(), Error>>;
    fn check(&self) -> Boxed<Result<(), Error>>;
    fn guard(&self) -> &Guard;
    fn lane(&self, prepared: &AnyPrepared, key: KeyRef<'_>) -> usize;
    fn suspect(&self);
    fn figures(&self) -> Vec<Figure>;
    fn warnings(&self) -> Vec<String>;
    fn leave(&self) -> Boxed<()>;
    fn sleep(&self, span: Duration) -> Boxed<()>;
    fn spawn(&self, task: Boxed<()>);
}

impl AnyStore {
    /// This store.
    ///
    /// See the example of [`AnyStore`].
    pub fn new<S: SharedStore>(store: S) -> AnyStore {
        AnyStore(Arc::new(store))
    }
}

impl Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Debug for AnyPrepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyPrepared")
    }
}

impl AnyPrepared {
    fn of<S: SharedStore>(&self) -> Result<&S::Prepared, Error> {
        self.0.downcast_ref().ok_or_else(|| Error::request("a limit that another store prepared"))
    }
}

impl<S: SharedStore> Erased for S {
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<AnyPrepared, Error> {
        Ok(AnyPrepared(Arc::new(SharedStore::prepare(self, namespace, limit)?)))
    }

    fn ask(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        mode: Mode,
        at: Option<Timestamp>,
        deadline: Option<Duration>,
    ) -> Boxed<Result<Vec<Outcome>, Error>> {
        let own = asks
            .iter()
            .map(|&Ask { prepared, key, op }| Ok(Ask { prepared: prepared.of::<S>()?, key, op }));
        match (own.collect::<Result<Vec<_>, _>>(), deadline) {
            (Ok(asks), None) => Box::pin(SharedStore::ask(self, &asks, mode, at)),
            (Ok(asks), Some(deadline)) => {
                Box::pin(SharedStore::ask_within(self, &asks, mode, at, deadline))
            }
            (Err(error), _) => failed(error),
        }
    }

    fn try_now(
        &self,
        prepared: &AnyPrepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        SharedStore::try_now(self, prepared.of::<S>().ok()?, key, op, at)
    }

    fn reset(
        &self,
        prepared: &[AnyPrepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> Boxed<Result<bool, Error>> {
        let own = prepared.iter().map(|prepared| prepared.of::<S>().cloned());
        match own.collect::<Result<Vec<_>, _>>() {
            Ok(prepared) => Box::pin(SharedStore::reset(self, &prepared, key, at)),
            Err(error) => failed(error),
        }
    }

    fn clear(&self, prepared: &AnyPrepared) -> Boxed<Result<(), Error>> {
        match prepared.of::<S>() {
            Ok(prepared) => Box::pin(SharedStore::clear(self, prepared)),
            Err(error) => failed(error),
        }
    }

    fn check(&self) -> Boxed<Result<(), Error>> {
        Box::pin(SharedStore::check(self))
    }

    fn guard(&self) -> &Guard {
        SharedStore::guard(self)
    }

    fn lane(&self, prepared: &AnyPrepared, key: KeyRef<'_>) -> usize {
        prepared.of::<S>().map_or(0, |prepared| SharedStore::lane(self, prepared, key))
    }

    fn suspect(&self) {
        SharedStore::suspect(self);
    }

    fn figures(&self) -> Vec<Figure> {
        SharedStore::figures(self)
    }

    fn warnings(&self) -> Vec<String> {
        SharedStore::warnings(self)
    }

    fn leave(&self) -> Boxed<()> {
        Box::pin(SharedStore::leave(self))
    }

    fn sleep(&self, span: Duration) -> Boxed<()> {
        Box::pin(SharedStore::sleep(self, span))
    }

    fn spawn(&self, task: Boxed<()>) {
        SharedStore::spawn(self, task);
    }
}

fn failed<T: Send + 'static>(error: Error) -> Boxed<Result<T, Error>> {
    Box::pin(std::future::ready(Err(error)))
}

impl SharedStore for AnyStore {
    type Prepared = AnyPrepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<AnyPrepared, Error> {
        self.0.prepare(namespace, limit)
    }

    fn ask(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        mode: Mode,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.0.ask(asks, mode, at, None)
    }

    fn ask_within(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        mode: Mode,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.0.ask(asks, mode, at, Some(deadline))
    }

    fn try_now(
        &self,
        prepared: &AnyPrepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        self.0.try_now(prepared, key, op, at)
    }

    fn reset(
        &self,
        prepared: &[AnyPrepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        self.0.reset(prepared, key, at)
    }

    fn clear(
        &self,
        prepared: &AnyPrepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.0.clear(prepared)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.0.check()
    }

    fn guard(&self) -> &Guard {
        self.0.guard()
    }

    fn lane(&self, prepared: &AnyPrepared, key: KeyRef<'_>) -> usize {
        self.0.lane(prepared, key)
    }

    fn suspect(&self) {
        self.0.suspect();
    }

    fn figures(&self) -> Vec<Figure> {
        self.0.figures()
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    fn leave(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.leave()
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.0.sleep(span)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(Box::pin(task));
    }
}
