//! Any store with compare-and-swap as a store of [`tollgate`]: every algorithm and every operation,
//! exact.
//!
//! A store implements [`Cells`]: read cells, change them if no other process has, delete them.
//! [`Cas`] turns that into a [`SharedStore`](tollgate::shared::SharedStore), and
//! [`as_store!`](crate::as_store) implements it for a wrapper type. `tollgate-memcached` and
//! `tollgate-etcd` are built this way; [`Table`] is the smallest example.
//!
//! # How a hit is decided
//!
//! The algorithm runs in this process: the state of a key is read, the machine of the limit steps
//! it, and the new state is written if no other process has written the key meanwhile.
//!
//! - **One round trip** if the state that this process cached is still the one in the store: the
//!   new state is written on the version of the cached one. Two round trips if it is not, or if the
//!   key has a state and none is cached. A denied hit that changes nothing is always read from the
//!   store, one round trip: another process may have refunded a hit.
//! - **Callers of one process never race each other.** All that wait for a key are decided one
//!   after the other and written in one swap. Callers that arrive during a swap are in the next
//!   one. So 64 callers on one key take as long as one.
//! - **Callers of different processes** may race. The loser of a race gets the current state and
//!   tries again until the deadline. After three lost races in a row it pauses before each try.
//! - **Several limits or keys together** are one swap where the store supports it
//!   ([`Cells::TOGETHER`]). Where it does not, they are peeked at, charged, and refunded if one of
//!   them is denied after all. That may deny too much for a moment, and never admits too much.
//! - **An ambiguous failure** is never retried. All callers of that swap get the error that it may
//!   have been executed, and its cells are dropped from the cache.
//! - **A caller that is dropped**, or not polled, delays no other caller: the work goes on in a
//!   spawned task.
//!
//! # Time
//!
//! The store has no clock, so each process uses the clock of its machine. Each value says when it
//! was written, and all machines follow the clock that is furthest ahead: a machine that reads a
//! value from its own future decides at that time from then on. So each machine gets its share,
//! however far the clocks are apart, and the limit is used in full. When a clock that is `s` ahead
//! joins, the limit is exceeded once, by what it gives in `s`; windows of fixed length begin `s`
//! early.
//!
//! A value that was written more than [`max_skew`](CasBuilder::max_skew) ahead of this machine's
//! clock is an error, not a decision: as long as a machine with such a clock takes part, the others
//! cannot decide the keys that it writes. The log shows both cases, and so do the
//! [figures](tollgate::shared::SharedStore::report) `clock_lag_microseconds` and
//! `clock_errors_total`. The machine that is ahead is the one without a lag. `fleet_clock.rs`
//! explains why no more than that is admitted.
//!
//! A state expires by the times in its value. The expiry that the store knows is always later, and
//! only frees memory.

mod as_store;
mod batch;
mod builder;
mod cache;
mod cells;
mod fleet_clock;
mod group_hit;
mod job;
mod locks;
mod store;
mod table;
mod value;

pub use builder::CasBuilder;
pub use cells::{Cell, Cells, Change, Name, Swap, Swapped};
pub use job::Prepared;
pub use table::Table;

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::Guard;
use tollgate::{Error, SystemClock};
use tollgate_remote::{Queues, Tokio};

use cache::CellCache;
use fleet_clock::FleetClock;
use job::Job;
use locks::CellLocks;

/// Default of [`CasBuilder::max_skew`].
pub const MAX_SKEW: Duration = Duration::from_secs(10);

/// Default of [`CasBuilder::remember`].
pub const REMEMBER: usize = 100_000;

/// A store on top of [`Cells`]. A cheap handle: clones share one store.
///
/// See the example of [`Table`].
pub struct Cas<C: Cells> {
    inner: Arc<Inner<C>>,
}

#[derive(Debug)]
struct Inner<C: Cells> {
    cells: Arc<C>,
    /// One queue per cell or group of cells, so that jobs of all callers that wait for the same
    /// cells are decided in order and written in one swap.
    queues: Queues<Arc<[Name]>, Job>,
    locks: CellLocks,
    cache: CellCache<C::Version>,
    guard: Guard,
    clock: FleetClock,
    /// The clock of deadlines.
    process_clock: SystemClock,
    runtime: Tokio,
}

impl<C: Cells> Clone for Cas<C> {
    fn clone(&self) -> Self {
        Cas { inner: Arc::clone(&self.inner) }
    }
}

impl<C: Cells> std::fmt::Debug for Cas<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cas").field(&self.inner.cells).finish()
    }
}

tollgate::limiters!(Cas<C: Cells>);

impl<C: Cells> Cas<C> {
    /// The settings of a store on these cells.
    ///
    /// See the example of [`CasBuilder`].
    pub fn builder(cells: C) -> CasBuilder<C> {
        CasBuilder::new(cells)
    }

    /// The cells.
    ///
    /// ```
    /// # use tollgate_cas::{Cas, Cells, Table};
    /// # async fn example(store: Cas<Table<true>>) -> Result<(), tollgate::Error> {
    /// store.cells().check().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cells(&self) -> &C {
        &self.inner.cells
    }

    /// Deletes all keys of all limits in a namespace.
    ///
    /// # Errors
    /// When the store does not answer. Some keys may have been deleted.
    ///
    /// ```
    /// # use tollgate_cas::{Cas, Table};
    /// # async fn example(store: Cas<Table<true>>) -> Result<(), tollgate::Error> {
    /// store.clear_namespace("shop").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn clear_namespace(&self, namespace: &str) -> Result<(), Error> {
        let place = self.inner.cells.place(namespace, None);
        let cleared = self.inner.forget(&place).await;
        // Even after an error some keys may be fresh now.
        self.inner.guard.forget_denials();
        cleared
    }
}
