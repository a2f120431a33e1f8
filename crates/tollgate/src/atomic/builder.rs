//! The settings of an [`Atomic`] store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use foldhash::quality::RandomState;

use super::table::Shared;
use super::{Atomic, Inner};
use crate::clock::{Clock, SystemClock};
use crate::registry::Registry;
use crate::time::micros_up;

/// The settings of an [`Atomic`] store.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Atomic;
///
/// let store = Atomic::builder().max_keys(100_000).clean_period(Duration::from_secs(30)).build();
/// ```
#[derive(Debug)]
#[must_use = "call build"]
pub struct AtomicBuilder<C = SystemClock> {
    clock: C,
    max_keys: usize,
    max_limits: usize,
    clean_period: Duration,
    key_older_than: Option<Duration>,
}

impl AtomicBuilder {
    pub(super) fn new() -> Self {
        AtomicBuilder {
            clock: SystemClock::new(),
            max_keys: crate::DEFAULT_MAX_KEYS,
            max_limits: crate::DEFAULT_MAX_LIMITS,
            clean_period: crate::DEFAULT_CLEAN_PERIOD,
            key_older_than: None,
        }
    }
}

impl<C> AtomicBuilder<C> {
    /// Sets the clock of the store.
    ///
    /// ```
    /// # use tollgate::{Atomic, ManualClock};
    /// let store = Atomic::builder().clock(ManualClock::default()).build();
    /// ```
    pub fn clock<D>(self, clock: D) -> AtomicBuilder<D> {
        AtomicBuilder {
            clock,
            max_keys: self.max_keys,
            max_limits: self.max_limits,
            clean_period: self.clean_period,
            key_older_than: self.key_older_than,
        }
    }

    /// Sets the largest number of keys that have a slot, over all limits. The default is ten
    /// million. At the bound, known keys keep their exact states and new keys share one state per
    /// limit.
    ///
    /// ```
    /// # use tollgate::{Atomic, Source};
    /// let limiter = Atomic::builder().max_keys(1).build().limiter("1/hour")?;
    /// assert_eq!(limiter.hit("known").source(), Source::Store);
    /// assert_eq!(limiter.hit("newcomer").source(), Source::Overflow);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets the largest number of limits that the store knows, over all namespaces. The default is
    /// 100,000. A limit that has no limiter and only fresh keys is forgotten within a few clean
    /// periods. A limit that has a limiter or a key that is not fresh is never forgotten. At the
    /// bound, a new limit replaces an unused one, for which the store searches at most 16 times in
    /// a clean period. If there is none, preparing the new limit fails.
    ///
    /// ```
    /// # use tollgate::Atomic;
    /// let store = Atomic::builder().max_limits(1).build();
    /// let login = store.limiter("5/minute")?;
    /// assert!(store.limiter("10/second").is_err());
    /// drop(login);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn max_limits(mut self, max_limits: usize) -> Self {
        self.max_limits = max_limits;
        self
    }

    /// Sets the period in which the store forgets expired states, that is, states that equal a
    /// fresh one again. The default is a minute.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let store = tollgate::Atomic::builder().clean_period(Duration::from_secs(5)).build();
    /// ```
    pub fn clean_period(mut self, period: Duration) -> Self {
        self.clean_period = period;
        self
    }

    /// Permits the store to forget states that were not used for this long (up to twice as long)
    /// even if they are not fresh: a drained bucket is full again. By default the store does not
    /// forget such states.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let store = tollgate::Atomic::builder().key_older_than(Duration::from_secs(86_400)).build();
    /// ```
    pub fn key_older_than(mut self, age: Duration) -> Self {
        self.key_older_than = Some(age);
        self
    }
}

impl<C: Clock> AtomicBuilder<C> {
    /// Creates the store.
    ///
    /// ```
    /// let store = tollgate::Atomic::builder().build();
    /// ```
    #[must_use]
    pub fn build(self) -> Atomic<C> {
        let (made_at, clean_period) = (self.clock.now(), micros_up(self.clean_period));
        let inner = Inner {
            hasher: RandomState::default(),
            registry: Registry::new(self.max_limits),
            shared: Arc::new(Shared::new(self.max_keys)),
            overflowed: AtomicUsize::new(0),
            made_at,
            clean_period,
            round_due: AtomicU64::new(made_at.plus(clean_period).as_micros()),
            round: std::sync::Mutex::default(),
            key_older_than: self.key_older_than.map(micros_up),
            clock: self.clock,
        };
        Atomic { inner: Arc::new(inner) }
    }
}
