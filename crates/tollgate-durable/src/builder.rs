//! Settings of a durable store.

use std::sync::Arc;
use std::time::Duration;

use tollgate::shared::{Guard, GuardBuilder};
use tollgate::{Clock, Error, SystemClock};

use crate::Durable;
use crate::address::Address;
use crate::clock::Time;
use crate::file::File;
use crate::keeper::Keeper;
use crate::level::{Keeping, Level};
use crate::opening::{self, Medium};

/// The settings of a [`Durable`] store.
///
/// ```
/// use std::time::Duration;
/// use tollgate_durable::{Durable, Level};
///
/// # let directory = tollgate_testservers::Directory::new();
/// # let path = directory.path().join("limits").display().to_string();
/// let store = Durable::builder(path)
///     .level(Level::Reserve)
///     .interval(Duration::from_millis(500))
///     .max_keys(100_000)
///     .max_limits(10_000)
///     .open()?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use = "a builder does nothing until it opens"]
pub struct DurableBuilder {
    address: String,
    medium: Option<Medium>,
    level: Option<Level>,
    interval: Option<Duration>,
    max_keys: Option<usize>,
    max_limits: Option<usize>,
    clean_period: Duration,
    clock: Time,
    guard: GuardBuilder,
}

impl std::fmt::Debug for DurableBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}

impl DurableBuilder {
    pub(crate) fn new(address: String) -> DurableBuilder {
        DurableBuilder {
            address,
            medium: None,
            level: None,
            interval: None,
            max_keys: None,
            max_limits: None,
            clean_period: Duration::from_secs(60),
            clock: Time::System(SystemClock::new()),
            guard: Durable::usual_guard(),
        }
    }

    /// Sets what must be on disk before a call is answered. Default [`Level::Reserve`].
    pub fn level(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// How often states are written for which no call waits. Default 1 second, at least a
    /// millisecond.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }

    /// The most keys in memory, over all limits. Default ten million. At the bound known keys keep
    /// their exact states, and unknown ones share one state per limit, which is not written to the
    /// file.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = Some(max_keys);
        self
    }

    /// The most limits in memory, over all namespaces. Default 100,000. A limit that has no limiter
    /// and no key in memory is forgotten after a clean period. At the bound a new limit replaces an
    /// unused one; if there is none, preparing it is an error.
    pub fn max_limits(mut self, max_limits: usize) -> Self {
        self.max_limits = Some(max_limits);
        self
    }

    /// How often expired states are removed from memory and the file. Default one minute.
    pub fn clean_period(mut self, period: Duration) -> Self {
        self.clean_period = period;
        self
    }

    /// Uses another clock, for tests.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Time::Given(Arc::new(clock));
        self
    }

    /// Deadline and breaker, instead of [`Durable::usual_guard`].
    pub fn guard(mut self, guard: GuardBuilder) -> Self {
        self.guard = guard;
        self
    }

    /// Stores the bytes elsewhere than in a file. The backend is created anew whenever the file
    /// would be opened. For tests of disks that fail.
    #[doc(hidden)]
    pub fn backend<B: redb::StorageBackend>(
        mut self,
        make: impl Fn() -> std::io::Result<B> + Send + Sync + 'static,
    ) -> Self {
        self.medium = Some(opening::medium(make));
        self
    }

    /// Opens the store. A missing file is created, a missing directory is not.
    ///
    /// # Errors
    /// When the address is not valid, or the file cannot be used: it belongs to another program, is
    /// damaged, of a newer version, in use or not writable. Then the file is not changed.
    pub fn open(self) -> Result<Durable, Error> {
        let address = Address::parse(&self.address)?;
        let level = self.level.or(address.level).unwrap_or_default();
        let interval = self.interval.or(address.interval).unwrap_or(Duration::from_secs(1));
        let keeping = Keeping { level, interval: interval.max(Duration::from_millis(1)) };
        let max_keys = self.max_keys.or(address.max_keys).unwrap_or(10_000_000);
        let file = File::open(self.medium.unwrap_or(Medium::Path(address.path)))?;
        let max_limits = self.max_limits.or(address.max_limits).unwrap_or(100_000);
        let keeper =
            Keeper::new(keeping, self.clock, max_keys, max_limits, self.clean_period, file)?;
        Durable::start(keeper, self.guard.name(self.address))
    }
}

impl Durable {
    /// The default guard. Calls may take a second, because a disk may. Denials are not remembered,
    /// because memory has them.
    ///
    /// ```
    /// let guard = tollgate_durable::Durable::usual_guard().open_after(10);
    /// ```
    #[must_use]
    pub fn usual_guard() -> GuardBuilder {
        Guard::builder().deadline(Duration::from_secs(1)).remember_denials(0)
    }
}
