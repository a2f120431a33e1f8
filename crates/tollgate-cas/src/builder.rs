//! The settings of a [`Cas`].

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::{Guard, GuardBuilder};
use tollgate::{Clock, Error, SystemClock};
use tollgate_remote::{Queues, Tokio};

use crate::cache::CellCache;
use crate::cells::Cells;
use crate::fleet_clock::FleetClock;
use crate::locks::CellLocks;
use crate::{Cas, Inner};

/// The settings of a [`Cas`].
///
/// ```
/// use std::time::Duration;
/// use tollgate_cas::{Cas, Table};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::Error> {
/// let store = Cas::builder(Table::<false>::default())
///     .max_skew(Duration::from_secs(2))
///     .remember(10_000)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct CasBuilder<C> {
    cells: C,
    guard: GuardBuilder,
    max_skew: Duration,
    remember: usize,
    clock: Arc<dyn Clock>,
}

impl<C: Cells> CasBuilder<C> {
    pub(crate) fn new(cells: C) -> CasBuilder<C> {
        CasBuilder {
            cells,
            guard: Guard::builder(),
            max_skew: crate::MAX_SKEW,
            remember: crate::REMEMBER,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Deadline, circuit breakers (one for each lane that a name can have) and the denial cache.
    ///
    /// See the example of [`CasBuilder`].
    pub fn guard(mut self, guard: GuardBuilder) -> Self {
        self.guard = guard;
        self
    }

    /// How far the clocks of two machines may be apart. Default 10 seconds. Up to this, all
    /// machines follow the clock that is furthest ahead. A state that was written further ahead is
    /// an error, not a decision.
    ///
    /// See the example of [`CasBuilder`].
    pub fn max_skew(mut self, max_skew: Duration) -> Self {
        self.max_skew = max_skew;
        self
    }

    /// How many cells this process caches, so that a hit on them is one round trip. Default
    /// 100,000.
    ///
    /// See the example of [`CasBuilder`].
    pub fn remember(mut self, cells: usize) -> Self {
        self.remember = cells;
        self
    }

    /// Replaces the system clock, for tests.
    ///
    /// ```
    /// use tollgate::{ManualClock, Timestamp};
    /// let clock = ManualClock::new(Timestamp::EPOCH);
    /// let builder = tollgate_cas::Cas::builder(tollgate_cas::Table::<true>::default()).clock(clock);
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the store. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When it is called outside a tokio runtime.
    ///
    /// See the example of [`CasBuilder`].
    pub fn build(self) -> Result<Cas<C>, Error> {
        let runtime = Tokio::current("a store")?;
        let cells = Arc::new(self.cells);
        let suspected = Arc::clone(&cells);
        let guard = self.guard.on_open(move || suspected.suspect());
        let inner = Inner {
            cells,
            queues: Queues::new((*runtime).clone()),
            locks: CellLocks::new(C::TOGETHER),
            cache: CellCache::new(self.remember),
            guard: guard.build_on(runtime.clone()),
            clock: FleetClock::new(self.clock, self.max_skew),
            process_clock: SystemClock::new(),
            runtime,
        };
        Ok(Cas { inner: Arc::new(inner) })
    }
}
