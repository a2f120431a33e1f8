//! Any store with compare-and-swap as a store of [`tollgate`]: every algorithm and every operation,
//! exact.
//!
//! A store brings [`Cells`]: read some, change them if nobody else has, forget them. [`Cas`] makes
//! a [`SharedStore`](tollgate::shared::SharedStore) of it, and [`as_store!`](crate::as_store) gives
//! that a name of its own. `tollgate-memcached` and `tollgate-etcd` are made so; [`Table`] is the
//! smallest example.
//!
//! # How a hit is decided
//!
//! The algorithm runs here: the state of a key is read, the machine of the limit steps it, and it
//! is written if nobody else has written meanwhile.
//!
//! - **One round trip** if the state that this process has seen last is still the one in the store:
//!   it is written at once, on the version that belongs to it. Two, if it is not, or if nothing is
//!   remembered and there is a state. A hit that is refused and changes nothing is read, one round
//!   trip: another process may have given something back.
//! - **Callers of one process never race each other.** What waits for a key is decided one after
//!   the other and written in one swap; who comes meanwhile is in the next one. So 64 callers on
//!   one key take as long as one.
//! - **Callers of different processes** may: who loses has what is there now, and tries again until
//!   the deadline. After three races lost in a row it lets the others go first for a moment.
//! - **Several limits or keys at once** are one swap where the store can ([`Cells::TOGETHER`]).
//!   Where it cannot, they are asked, charged, and given back if one of them has refused meanwhile:
//!   that may deny too much for a moment, and never admits too much.
//! - **An ambiguous failure** is never repeated. All callers of that swap are told that it may have
//!   been done, and what was remembered is forgotten.
//! - **Who walks away**, or is not polled, holds up nobody: the work goes on in a task of its own.
//!
//! # Time
//!
//! The store has no clock, so the machines that ask it bring theirs. Each value says when it was
//! written, and all machines follow the clock that is furthest ahead: one that reads a value from
//! its own future decides at that time from then on. So each machine gets its share, however far
//! the clocks are apart, and the limit is used in full. It is exceeded once, when a clock that is
//! `s` ahead joins, by what the limit gives in `s`; windows of fixed length begin `s` early.
//!
//! A value that was written more than [`max_skew`](CasBuilder::max_skew) ahead of the clock here is
//! an error, not a decision: as long as a machine with such a clock takes part, the others cannot
//! decide the keys that it writes. Both are in the log, and in the
//! [figures](tollgate::shared::SharedStore::figures) `clock_lag_microseconds` and
//! `clock_errors_total`. The machine that is ahead is the one without a lag. `fleet_clock.rs` says
//! why nothing more is admitted.
//!
//! Whether a state has ended is judged by its value; how long the store keeps it only frees memory,
//! and is always longer.

mod act;
mod as_store;
mod builder;
mod cells;
mod desk;
mod fleet_clock;
mod lead;
mod memory;
mod one_by_one;
mod round;
mod store;
mod table;
mod value;

pub use act::Prepared;
pub use builder::CasBuilder;
pub use cells::{Cell, Cells, Change, Name, Swap, Swapped};
pub use table::Table;

use std::sync::Arc;
use std::time::Duration;

use tollgate::Error;
use tollgate::shared::Guard;

use desk::Desks;
use fleet_clock::FleetClock;
use memory::Memory;

/// How far the clocks of two machines may be apart, unless told otherwise.
pub const MAX_SKEW: Duration = Duration::from_secs(10);

/// How many cells are remembered, unless told otherwise.
pub const REMEMBER: usize = 100_000;

/// A store made of [`Cells`]. A handle: clones share everything.
///
/// See the example of [`Table`].
pub struct Cas<C: Cells> {
    inner: Arc<Inner<C>>,
}

#[derive(Debug)]
struct Inner<C: Cells> {
    cells: C,
    desks: Desks,
    memory: Memory<C::Version>,
    guard: Guard,
    clock: FleetClock,
    runtime: tokio::runtime::Handle,
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
    /// A store of these cells.
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

    /// Forgets all keys of all limits in a namespace.
    ///
    /// # Errors
    /// When the store does not answer; some keys may be gone.
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
        // However it ended, some keys may be fresh now.
        self.inner.guard.forget_denials();
        cleared
    }
}
