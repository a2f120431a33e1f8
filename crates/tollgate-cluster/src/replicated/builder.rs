//! Builder of a replicated store.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Error, SystemClock};

use super::counts::Actor;
use super::driver::Shared;
use super::replica::Replica;
use super::settings::{OnMissing, Settings};
use super::store::Replicated;
use crate::bus::Bus;

/// Builds a [`Replicated`].
///
/// ```
/// # async fn example() -> Result<(), tollgate::Error> {
/// use std::time::Duration;
/// use tollgate_cluster::{bus::InMemory, replicated::{OnMissing, Replicated}};
/// let replica = Replicated::builder(InMemory::new())
///     .flush(Duration::from_millis(5))
///     .nodes(3)
///     .on_missing(OnMissing::Share)
///     .start()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder<B> {
    bus: B,
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
}

impl<B: Bus> Builder<B> {
    pub(super) fn new(bus: B) -> Builder<B> {
        Builder { bus, settings: Settings::default(), clock: None }
    }

    /// Replaces all settings.
    ///
    /// See [`Settings`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How often changes are sent. Default 20 ms, at least a millisecond.
    ///
    /// See the example of [`Builder`].
    pub fn flush(mut self, flush: Duration) -> Self {
        self.settings.flush = flush;
        self
    }

    /// Sets how this node decides while peers are missing. Default [`OnMissing::GoOn`].
    ///
    /// See the example of [`Builder`].
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.settings.on_missing = on_missing;
        self
    }

    /// How often this node sends a heartbeat, from the flush interval to a minute. Default 1 s. A
    /// peer that has been silent for three of them is missing. Use the same on all nodes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).heartbeat(Duration::from_millis(250));
    /// ```
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.settings.heartbeat = heartbeat;
        self
    }

    /// How long a silent peer counts as missing, at least three heartbeats. Default 15 minutes.
    /// After that it is forgotten, as if it had left.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).memory(Duration::from_secs(60));
    /// ```
    pub fn memory(mut self, memory: Duration) -> Self {
        self.settings.memory = memory;
        self
    }

    /// The name of this node: the same after each restart, and different on each node. A node that
    /// crashed and starts again replaces its earlier start immediately. Without a name the earlier
    /// start is missing for as long as [`memory`](Builder::memory) says.
    ///
    /// ```
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).name("rack1-a");
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.node = name.into();
        self
    }

    /// The usual number of nodes. Until a new replica has fetched the counts of the others, it
    /// keeps to its share of the limit.
    ///
    /// See the example of [`Builder`].
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.settings.nodes = nodes;
        self
    }

    /// The most units per second that all nodes together are offered for one key, if that is known.
    /// It makes the bounds of decisions smaller.
    ///
    /// ```
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).peak(5_000);
    /// ```
    pub fn peak(mut self, units_per_second: u64) -> Self {
        self.settings.peak = Some(units_per_second);
        self
    }

    /// The most keys. Default one million. Unknown keys beyond it share one counter for each limit.
    ///
    /// ```
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).max_keys(10_000);
    /// ```
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.settings.max_keys = keys;
        self
    }

    /// The most limits, including those that other nodes use. Default 100,000. Beyond it a new
    /// limit is refused until an unused one has been forgotten, which takes some seconds.
    ///
    /// ```
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).max_limits(1_000);
    /// ```
    pub fn max_limits(mut self, limits: usize) -> Self {
        self.settings.max_limits = limits;
        self
    }

    /// Another clock. It must tell the time of day, the same on all nodes.
    ///
    /// ```
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let builder = Replicated::builder(InMemory::new()).clock(tollgate::SystemClock::new());
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Starts the replica on the caller's tokio runtime. Waits until the counts of the present
    /// peers have been fetched, or no peer answers. If the bus cannot be reached, it starts after
    /// twice the time to join, keeps to its share, and joins when it can.
    ///
    /// # Errors
    /// When the settings contradict each other.
    ///
    /// See the example of [`Builder`].
    pub async fn start(self) -> Result<Replicated, Error> {
        self.settings.check()?;
        let join = self.settings.join;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let actor = new_name();
        let replica = Replica::new(actor, self.settings);
        let store = Replicated::run(Shared::new(replica, clock), self.bus.join(actor))?;
        let _ = tokio::time::timeout(join * 2, store.wait_ready()).await;
        Ok(store)
    }
}

/// A random name: two hash keys from the system's random numbers.
fn new_name() -> Actor {
    let half = || RandomState::new().hash_one(std::process::id());
    half() ^ half().rotate_left(32)
}
