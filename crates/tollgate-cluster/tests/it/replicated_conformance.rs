//! The conformance suite on a single replica.
//!
//! A replica answers as the definition does while no other replica counts: its state is stepped at
//! the exact times. It refuses two algorithms. The sliding window follows the clock instead of the
//! key's first hit, because other windows do not merge. The simulation compares its decisions with
//! its own bound, so it is left out here. The replica's task would remove expired states by its
//! clock, while the suite passes its own times, so the task does not run here.

use std::future::Future;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{Ask, Guard, HitItem, SharedStore};
use tollgate::{Algorithm, Error, KeyRef, Limit, Outcome, Timestamp};
use tollgate_cluster::bus::InMemory;
use tollgate_cluster::replicated::{Prepared, Replicated, Settings};
use tollgate_testkit::{Subject, conformance};
use tollgate_testservers::calls;

/// A replica that refuses sliding windows.
#[derive(Clone, Debug)]
struct WithoutSliding(Replicated);

impl SharedStore for WithoutSliding {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        if limit.algorithm() == Algorithm::SlidingWindow {
            return Err(Error::unsupported(limit, "its windows are the clock's"));
        }
        self.0.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let answer = self.0.ask_each(asks, at, deadline);
        async { Ok(answer.await?.into_iter().map(of_store).collect()) }
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let answer = self.0.ask_together(hits, at, deadline);
        async { Ok(answer.await?.into_iter().map(of_store).collect()) }
    }

    fn try_now(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        self.0.try_now(prepared, key, op, at).map(of_store)
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.0.clear(prepared)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.0.check()
    }

    fn guard(&self) -> &Guard {
        self.0.guard()
    }
}

/// The suite compares sources too, and expects that of a store.
fn of_store(decision: Outcome) -> Outcome {
    assert_eq!((decision.source(), decision.bound()), (tollgate::Source::Replica, Some(0)));
    decision.with_source(tollgate::Source::Store)
}

struct Single {
    store: WithoutSliding,
    runtime: tokio::runtime::Runtime,
}

impl Single {
    fn start() -> Single {
        let runtime = calls::runtime();
        let mut settings = Settings::default();
        settings.clean = Duration::from_secs(1_000_000);
        settings.join = Duration::from_millis(1);
        let builder = Replicated::builder(InMemory::new()).settings(settings);
        let store = WithoutSliding(runtime.block_on(builder.start()).unwrap());
        Single { store, runtime }
    }
}

impl Subject for Single {
    type Store = WithoutSliding;

    fn store(&self) -> WithoutSliding {
        self.store.clone()
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn refuses(&self, limit: &Limit) -> bool {
        limit.charge_denied()
            || limit.is_ban()
            || matches!(
                limit.algorithm(),
                Algorithm::FixedWindowPerKey
                    | Algorithm::ElasticWindow
                    | Algorithm::SlidingWindow
                    | Algorithm::CalendarWindow
                    | Algorithm::Budget
            )
    }
}

conformance!(single_replica, Single::start);
