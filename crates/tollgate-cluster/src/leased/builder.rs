//! Settings of a leased store.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Clock;
use tollgate::shared::{Guard, SharedStore};

use super::stats::Counters;
use super::table::Table;
use super::{Inner, Leased, Leases};
use crate::BootClock;

/// Settings of a [`Leased`] store.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Memory, shared::InProcess};
/// use tollgate_cluster::Leased;
/// let store = Leased::builder(InProcess::new(Memory::new())).nodes(3).longest(Duration::from_millis(250)).build();
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct LeasedBuilder<S: SharedStore> {
    store: S,
    longest: Duration,
    skew: Duration,
    nodes: u64,
    max_keys: usize,
    clock: Arc<dyn Clock>,
}

impl<S: SharedStore> LeasedBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        LeasedBuilder {
            store,
            longest: Duration::from_secs(1),
            skew: Duration::ZERO,
            nodes: 8,
            max_keys: 100_000,
            clock: Arc::new(BootClock::new()),
        }
    }

    /// The longest life of an allotment; those of short limits are shorter. Default one second. A
    /// node that crashes loses its allotments: in a bucket until it has refilled, in a window until
    /// the window ends, however long that is.
    ///
    /// See the example of [`LeasedBuilder`].
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// How far apart the clocks are by which the store counts: for stores that use the clocks of
    /// their callers, such as Memcached and etcd. Default none. Buckets give up what flows back in
    /// this time, and allotments end this much before their windows.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Memory, shared::InProcess};
    /// # use tollgate_cluster::Leased;
    /// let store = Leased::builder(InProcess::new(Memory::new())).skew(Duration::from_millis(5)).build();
    /// ```
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// About how many nodes are running: none draws more than half of the rest divided by them.
    /// Default 8. Too high a number costs round trips; too low a number leaves units with nodes
    /// that do not need them, until they are given back. The limit holds either way.
    ///
    /// See the example of [`LeasedBuilder`].
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = u64::from(nodes.max(1));
        self
    }

    /// The most keys with allotments. Hits on other keys go to the store. Default 100,000.
    ///
    /// ```
    /// # use tollgate::{Memory, shared::InProcess};
    /// # use tollgate_cluster::Leased;
    /// let store = Leased::builder(InProcess::new(Memory::new())).max_keys(1_000).build();
    /// ```
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// The clock by which allotments end, for tests. It must count suspended time.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Memory, Timestamp, shared::InProcess};
    /// # use tollgate_cluster::Leased;
    /// let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    /// let store = Leased::builder(InProcess::new(Memory::new())).clock(clock).build();
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the store.
    ///
    /// See the example of [`LeasedBuilder`].
    #[must_use]
    pub fn build(self) -> Leased<S> {
        let LeasedBuilder { store, longest, skew, nodes, max_keys, clock } = self;
        // The holding remembers denials itself, and no longer than its allotments live, because
        // other nodes may give units back.
        let guard = Guard::builder()
            .name(store.guard().name())
            .deadline(store.guard().deadline())
            .remember_denials(0)
            .on_open({
                let store = store.clone();
                move || store.guard().suspect()
            })
            .build_on(Arc::clone(store.guard().runtime()));
        let inner = Inner {
            store,
            leases: Mutex::new(Leases::new()),
            table: Table::new(max_keys),
            longest,
            skew,
            nodes,
            guard,
            clock,
            counters: Counters::default(),
            swept: AtomicBool::new(false),
        };
        Leased { inner: Arc::new(inner) }
    }
}
