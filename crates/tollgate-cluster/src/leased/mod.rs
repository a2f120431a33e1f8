//! Allotments drawn from a shared store and spent without a round trip.
//!
//! [`Leased`] wraps any [`SharedStore`] and is one itself. A hit takes units that this node has
//! already drawn. Only when none are left is the store asked, for as many as will soon be needed.
//! All nodes together never admit more than the limit allows. The proof for each algorithm is in
//! `terms.rs`. It assumes:
//!
//! - The store loses no write. One that fails over and forgets draws lets them be drawn again: at
//!   most the limit more for a key.
//! - The clocks of nodes and store differ in speed by less than a thousandth, and count suspended
//!   time ([`BootClock`]). Where the store uses the clocks of its callers (Memcached, etcd, a
//!   durable file), they are no more than [`LeasedBuilder::skew`] apart.
//! - All nodes lease. A node that uses a bucket's limit without leasing has the whole burst; then
//!   what flows back in the life of an allotment may be admitted too much.
//! - A hit that was given back counts as never made.
//!
//! If an assumption fails, at most this may be admitted beyond the limit:
//!
//! | when | at most |
//! | --- | --- |
//! | the store forgets writes (a failover) | the limit and the units in allotments, once |
//! | the store's clock is set by a span J | for a bucket, the units that flow back in J; otherwise the units in allotments |
//! | `set`, `reset`, `clear`, a lower quota | the units in allotments at that moment |
//! | clocks further apart than `skew` by a span s | for a bucket, the units that flow back in s; otherwise the units that are admitted in s |
//! | a node's machine is copied or its clock stands still | the units in the allotments of that node |
//!
//! Every other failure admits too little, never too much. A node that crashes loses its allotments,
//! and a draw whose answer is lost is charged and not spent. These units count until the window
//! ends in which they were drawn, or until the bucket has refilled.
//!
//! # What it costs
//!
//! An allotment lives no longer than [`LeasedBuilder::longest`]. For that, a bucket gives up a
//! tenth of its burst (its allotments live as long as that tenth takes to flow back), and a moving
//! window is a hundredth longer. Windows give up nothing. `usage` counts units that were drawn, not
//! units that were spent.
//!
//! `set`, `reset` and `clear` cannot recall the allotments of other nodes. Until these have ended,
//! that much more may pass.

mod builder;
mod draw;
mod holding;
mod key_call;
mod planted;
#[cfg(test)]
mod sim;
mod stats;
mod sweep;
mod table;
mod terms;
mod together;
mod waiter;

pub use builder::LeasedBuilder;
pub use stats::LeaseStats;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{Ask, Guard, HitItem, SharedLimiter, SharedStore, StoreReport};
use tollgate::{Clock, Error, KeyRef, Limit, Outcome, OwnedKey, Source, Timestamp};

use key_call::KeyCall;
use stats::Counters;
use table::{CounterKey, KeyQueue, Table};
use terms::Terms;
use waiter::Demand;

#[cfg(doc)]
use crate::BootClock;

/// A store from which allotments are drawn. A handle: clones share everything.
///
/// ```
/// # tokio_test(async {
/// use tollgate::{Memory, Source, shared::InProcess};
/// use tollgate_cluster::Leased;
///
/// // In place of the memory: Redis, PostgreSQL or any other store that nodes share.
/// let store = Leased::new(InProcess::new(Memory::new()));
/// let limiter = store.limiter("1000/minute fixed-window")?;
/// for _ in 0..100 {
///     assert!(limiter.hit("user:42").await?.allowed());
/// }
/// assert_eq!(limiter.hit("user:42").await?.source(), Source::Lease);
/// assert!(store.stats().draws < 20);
/// # Ok::<(), tollgate::Error>(())
/// # });
/// # fn tokio_test(f: impl Future<Output = Result<(), tollgate::Error>>) {
/// #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(f).unwrap();
/// # }
/// ```
pub struct Leased<S: SharedStore> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: SharedStore> {
    store: S,
    leases: Mutex<Leases<S>>,
    table: Table,
    longest: Duration,
    skew: Duration,
    nodes: u64,
    guard: Guard,
    clock: Arc<dyn Clock>,
    counters: Counters,
    /// Whether a task looks after allotments that end.
    swept: AtomicBool,
}

/// The limits in use, and some that were used.
struct Leases<S: SharedStore> {
    by_name: HashMap<String, Arc<Lease<S>>>,
    /// The number of the next new limit. Numbers are not used again.
    next: usize,
    /// When there are this many limits, unused ones are forgotten before one more is added.
    forget_at: usize,
}

/// With fewer limits than this, none are forgotten.
const FORGET_AT_LEAST: usize = 64;

impl<S: SharedStore> Leases<S> {
    fn new() -> Self {
        Leases { by_name: HashMap::new(), next: 0, forget_at: FORGET_AT_LEAST }
    }

    /// Forgets limits that have neither a limiter nor a queue, so that the store behind can forget
    /// them too. Only a caller that holds a lease can open a queue for it, so none is opened
    /// meanwhile.
    fn forget_unused(&mut self) {
        self.by_name.retain(|_, lease| {
            Arc::strong_count(lease) > 1 || Arc::strong_count(&lease.queues) > 1
        });
        // Doubling keeps the search cheap for each new limit.
        self.forget_at = FORGET_AT_LEAST.max(self.by_name.len() * 2);
    }
}

impl<S: SharedStore> Inner<S> {
    fn leases(&self) -> MutexGuard<'_, Leases<S>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A limit as [`Leased`] holds it.
#[derive(Debug)]
pub struct Prepared<S: SharedStore>(Arc<Lease<S>>);

#[derive(Debug)]
struct Lease<S: SharedStore> {
    /// The number of the limit in the table.
    number: usize,
    /// Each queue of the limit holds a reference: a limit with queues is not forgotten.
    queues: Arc<()>,
    terms: Terms,
    /// A limiter on the limit that is drawn from, with the deadline and the breakers of the store
    /// itself.
    limiter: SharedLimiter<S>,
    prepared: S::Prepared,
}

impl<S: SharedStore> Lease<S> {
    /// Whether a hit of this many units can be served from allotments.
    fn can_lease(&self, units: u64) -> bool {
        !self.terms.life.is_zero() && (1..=self.terms.drawn.burst()).contains(&units)
    }
}

tollgate::limiters!(Leased<S: SharedStore>);

impl<S: SharedStore> Leased<S> {
    /// Leases from this store with the default settings.
    ///
    /// See the example of [`Leased`].
    #[must_use]
    pub fn new(store: S) -> Leased<S> {
        Leased::builder(store).build()
    }

    /// A builder for leasing from this store.
    ///
    /// See the example of [`LeasedBuilder`].
    pub fn builder(store: S) -> LeasedBuilder<S> {
        LeasedBuilder::new(store)
    }

    /// The store that is drawn from.
    ///
    /// ```
    /// # use tollgate::{Memory, shared::{InProcess, SharedStore}};
    /// # use tollgate_cluster::Leased;
    /// let leased = Leased::new(InProcess::new(Memory::new()));
    /// assert_eq!(leased.store().guard().stats().answered, 0);
    /// ```
    #[must_use]
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// Counts of draws, saved round trips and units given back.
    ///
    /// See the example of [`Leased`].
    #[must_use]
    pub fn stats(&self) -> LeaseStats {
        self.inner.counters.snapshot(self.inner.table.len())
    }

    fn call(&self, lease: &Arc<Lease<S>>, key: KeyRef<'_>) -> KeyCall<S> {
        KeyCall { leased: self.clone(), lease: Arc::clone(lease), key: OwnedKey::new(&key) }
    }

    /// Forgets the allotments of a key whose count is set or reset.
    fn forget(&self, lease: &Lease<S>, key: KeyRef<'_>) {
        let counter = CounterKey { limit: lease.number, key };
        self.inner.table.find(counter, |queue| queue.holding.forget());
    }

    /// Answers from allotments if possible. The clock is read while the queue is locked, because a
    /// unit is spent at that time or not at all.
    #[inline]
    fn try_allotments(&self, lease: &Arc<Lease<S>>, key: KeyRef<'_>, op: Op) -> Option<Outcome> {
        let Inner { table, counters, clock, .. } = &*self.inner;
        let terms = &lease.terms;
        let answer = |queue: &mut KeyQueue| match op {
            Op::Hit(cost @ 1..) => queue.ask(terms, clock.now(), Demand::Hit(cost)),
            Op::Take(units @ 1..) => queue.ask(terms, clock.now(), Demand::Take(units)),
            Op::Peek(cost) => Some((queue.holding.peek(clock.now(), cost)?, false)),
            Op::Refund(receipt) if receipt.source == Source::Lease => {
                Some((queue.holding.put_back(terms, clock.now(), &receipt)?, false))
            }
            _ => None,
        };
        let (decision, low) = table.find(CounterKey { limit: lease.number, key }, answer)??;
        counters.in_hand.add(1);
        if !decision.allowed() {
            counters.refused.add(1);
        }
        if low {
            self.call(lease, key).draw();
        }
        Some(decision)
    }
}

impl<S: SharedStore> SharedStore for Leased<S> {
    type Prepared = Prepared<S>;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared<S>, Error> {
        let terms = Terms::new(limit, self.inner.longest, self.inner.skew)?;
        let (quota, burst) = (limit.quota(), limit.burst());
        // Plans with different quotas under one name share a counter and have separate allotments.
        let name = format!("{}:{namespace}:{quota}:{burst}:{}", namespace.len(), limit.identity());
        let limiter = SharedLimiter::new(&self.inner.store, namespace, terms.drawn.clone())?;
        let prepared = self.inner.store.prepare(namespace, &terms.drawn)?;
        let mut leases = self.inner.leases();
        if let Some(lease) = leases.by_name.get(&name) {
            return Ok(Prepared(Arc::clone(lease)));
        }
        if leases.by_name.len() >= leases.forget_at {
            leases.forget_unused();
        }
        let number = leases.next;
        leases.next += 1;
        let lease = Arc::new(Lease { number, queues: Arc::default(), terms, limiter, prepared });
        leases.by_name.insert(name, Arc::clone(&lease));
        Ok(Prepared(lease))
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared<S>>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<S> {
        // Calls with a time of their own cannot use allotments: the store decides.
        let exact = at.is_some().then(|| {
            for ask in asks.iter().filter(|ask| ask.op == Op::Reset) {
                self.forget(&ask.prepared.0, ask.key);
            }
            let inner: Vec<_> = asks
                .iter()
                .map(|ask| Ask { prepared: &ask.prepared.0.prepared, key: ask.key, op: ask.op })
                .collect();
            self.inner.store.ask_each(&inner, at, deadline)
        });
        let call = |ask: &Ask<'_, Prepared<S>>| self.call(&ask.prepared.0, ask.key);
        let calls: Vec<_> = match exact {
            Some(_) => Vec::new(),
            None => asks.iter().map(|ask| (call(ask), ask.op)).collect(),
        };
        async move {
            match exact {
                Some(exact) => exact.await,
                None => together::each(calls, deadline).await,
            }
        }
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared<S>>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<S> {
        let exact = at.is_some().then(|| {
            let inner: Vec<_> = hits
                .iter()
                .map(|hit| HitItem {
                    prepared: &hit.prepared.0.prepared,
                    key: hit.key,
                    cost: hit.cost,
                })
                .collect();
            self.inner.store.ask_together(&inner, at, deadline)
        });
        let call = |hit: &HitItem<'_, Prepared<S>>| self.call(&hit.prepared.0, hit.key);
        let calls: Vec<_> = match exact {
            Some(_) => Vec::new(),
            None => hits.iter().map(|hit| (call(hit), hit.cost)).collect(),
        };
        async move {
            match exact {
                Some(exact) => exact.await,
                None => together::together(calls, deadline).await,
            }
        }
    }

    #[inline]
    fn try_now(
        &self,
        prepared: &Prepared<S>,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        match at {
            None => self.try_allotments(&prepared.0, key, op),
            Some(_) if op == Op::Reset => None,
            Some(_) => self.inner.store.try_now(&prepared.0.prepared, key, op, at),
        }
    }

    fn clear(
        &self,
        prepared: &Prepared<S>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
        let number = prepared.0.number;
        self.inner.table.sweep(|entry| {
            if entry.limit == number {
                entry.queue.holding.forget();
            }
            true
        });
        self.inner.store.clear(&prepared.0.prepared)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<S> {
        self.inner.store.check()
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    fn lane(&self, prepared: &Prepared<S>, key: KeyRef<'_>) -> usize {
        self.inner.store.lane(&prepared.0.prepared, key)
    }

    fn report(&self) -> StoreReport {
        let mut report = self.inner.store.report();
        report.figures.extend(self.stats().figures());
        report
    }

    fn leave(&self) -> impl Future<Output = ()> + Send + use<S> {
        let leased = self.clone();
        async move {
            leased.give_back(true).await;
            leased.inner.store.leave().await;
        }
    }
}

impl<S: SharedStore> Clone for Leased<S> {
    fn clone(&self) -> Self {
        Leased { inner: Arc::clone(&self.inner) }
    }
}

impl<S: SharedStore> Clone for Prepared<S> {
    fn clone(&self) -> Self {
        Prepared(Arc::clone(&self.0))
    }
}

impl<S: SharedStore> fmt::Debug for Leased<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased")
            .field("store", &self.inner.store)
            .field("stats", &self.stats())
            .finish()
    }
}
