//! A store that is chosen at run time.

use std::any::Any;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Guard, HitItem, SharedStore, StoreReport};
use crate::algorithm::Op;
use crate::error::Error;
use crate::hold::{HoldCall, HoldId, HoldReply};
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Any [`SharedStore`] as one type, for programs that choose the store by their configuration. Only
/// calls that wait are boxed. If the store can answer without waiting, this type does too.
///
/// ```
/// use tollgate::{Memory, shared::{AnyStore, InProcess, SharedLimiter}};
/// let store = AnyStore::new(InProcess::new(Memory::new()));
/// let limiter = SharedLimiter::new(&store, "", "10/second")?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyStore(Arc<dyn Erased>);

/// A limit that was prepared by [`AnyStore`].
#[derive(Clone)]
pub struct AnyPrepared(Arc<dyn Any + Send + Sync>);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The methods of [`SharedStore`] without its associated types. Passing a limit that another store
/// has prepared is an error.
trait Erased: Debug + Send + Sync {
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<AnyPrepared, Error>;
    fn ask_each(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Boxed<Result<Vec<Outcome>, Error>>;
    fn ask_together(
        &self,
        hits: &[HitItem<'_, AnyPrepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Boxed<Result<Vec<Outcome>, Error>>;
    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Boxed<Result<HoldReply, Error>>;
    fn keeps_holds(&self) -> Result<(), Error>;
    fn clear(&self, prepared: &AnyPrepared) -> Boxed<Result<(), Error>>;
    fn guard(&self) -> &Guard;
    fn try_now(
        &self,
        prepared: &AnyPrepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome>;
    fn lane(&self, prepared: &AnyPrepared, key: KeyRef<'_>) -> usize;
    fn check(&self) -> Boxed<Result<(), Error>>;
    fn report(&self) -> StoreReport;
    fn leave(&self) -> Boxed<()>;
}

impl AnyStore {
    /// Wraps a store.
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
        self.0.downcast_ref().ok_or_else(|| {
            Error::request("a limit that another store has prepared cannot be used here")
        })
    }
}

impl<S: SharedStore> Erased for S {
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<AnyPrepared, Error> {
        Ok(AnyPrepared(Arc::new(SharedStore::prepare(self, namespace, limit)?)))
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Boxed<Result<Vec<Outcome>, Error>> {
        let own = asks
            .iter()
            .map(|&Ask { prepared, key, op }| Ok(Ask { prepared: prepared.of::<S>()?, key, op }));
        match own.collect::<Result<Vec<_>, _>>() {
            Ok(asks) => Box::pin(SharedStore::ask_each(self, &asks, at, deadline)),
            Err(error) => failed(error),
        }
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, AnyPrepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Boxed<Result<Vec<Outcome>, Error>> {
        let own = hits.iter().map(|&HitItem { prepared, key, cost }| {
            Ok(HitItem { prepared: prepared.of::<S>()?, key, cost })
        });
        match own.collect::<Result<Vec<_>, _>>() {
            Ok(hits) => Box::pin(SharedStore::ask_together(self, &hits, at, deadline)),
            Err(error) => failed(error),
        }
    }

    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Boxed<Result<HoldReply, Error>> {
        Box::pin(SharedStore::hold(self, namespace, id, call, at, deadline))
    }

    fn keeps_holds(&self) -> Result<(), Error> {
        SharedStore::keeps_holds(self)
    }

    fn clear(&self, prepared: &AnyPrepared) -> Boxed<Result<(), Error>> {
        match prepared.of::<S>() {
            Ok(prepared) => Box::pin(SharedStore::clear(self, prepared)),
            Err(error) => failed(error),
        }
    }

    fn guard(&self) -> &Guard {
        SharedStore::guard(self)
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

    fn lane(&self, prepared: &AnyPrepared, key: KeyRef<'_>) -> usize {
        prepared.of::<S>().map_or(0, |prepared| SharedStore::lane(self, prepared, key))
    }

    fn check(&self) -> Boxed<Result<(), Error>> {
        Box::pin(SharedStore::check(self))
    }

    fn report(&self) -> StoreReport {
        SharedStore::report(self)
    }

    fn leave(&self) -> Boxed<()> {
        Box::pin(SharedStore::leave(self))
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

    fn ask_each(
        &self,
        asks: &[Ask<'_, AnyPrepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.0.ask_each(asks, at, deadline)
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, AnyPrepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.0.ask_together(hits, at, deadline)
    }

    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<HoldReply, Error>> + Send + use<> {
        self.0.hold(namespace, id, call, at, deadline)
    }

    fn keeps_holds(&self) -> Result<(), Error> {
        self.0.keeps_holds()
    }

    fn clear(
        &self,
        prepared: &AnyPrepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.0.clear(prepared)
    }

    fn guard(&self) -> &Guard {
        self.0.guard()
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

    fn lane(&self, prepared: &AnyPrepared, key: KeyRef<'_>) -> usize {
        self.0.lane(prepared, key)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.0.check()
    }

    fn report(&self) -> StoreReport {
        self.0.report()
    }

    fn leave(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.leave()
    }
}
