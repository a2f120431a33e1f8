//! The settings of a [`Memory`] store.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::quality::RandomState;

use super::clean::{BeforeClean, Expired};
use super::permits::Queues;
use super::shard::Shard;
use super::stored_key::MOST_LIMITS;
use super::{Inner, Memory, SHARDS};
use crate::clock::{Clock, SystemClock};
use crate::hold::table::HoldTable;
use crate::hold::{DEFAULT_MAX_HOLDS, DEFAULT_RETAIN, HoldTerms, MAX_RETAIN};
use crate::keyed::{Count, OwnLine};
use crate::registry::Registry;
use crate::time::micros_up;

/// The settings of a [`Memory`] store.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Memory;
///
/// let store = Memory::builder()
///     .max_keys(100_000)
///     .clean_period(Duration::from_secs(30))
///     .key_older_than(Duration::from_secs(86_400))
///     .build();
/// ```
#[must_use = "call build"]
pub struct MemoryBuilder<C = SystemClock> {
    clock: C,
    max_keys: usize,
    max_limits: usize,
    clean_period: Duration,
    key_older_than: Option<Duration>,
    before_clean: Option<BeforeClean>,
    max_holds: usize,
    retain_holds: Duration,
}

impl MemoryBuilder {
    pub(super) fn new() -> Self {
        MemoryBuilder {
            clock: SystemClock::new(),
            max_keys: crate::DEFAULT_MAX_KEYS,
            max_limits: crate::DEFAULT_MAX_LIMITS,
            clean_period: crate::DEFAULT_CLEAN_PERIOD,
            key_older_than: None,
            before_clean: None,
            max_holds: DEFAULT_MAX_HOLDS,
            retain_holds: DEFAULT_RETAIN,
        }
    }
}

impl<C> std::fmt::Debug for MemoryBuilder<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBuilder").field("max_keys", &self.max_keys).finish_non_exhaustive()
    }
}

impl<C> MemoryBuilder<C> {
    /// Sets the clock of the store.
    ///
    /// ```
    /// # use tollgate::{ManualClock, Memory};
    /// let store = Memory::builder().clock(ManualClock::default()).build();
    /// ```
    pub fn clock<D>(self, clock: D) -> MemoryBuilder<D> {
        MemoryBuilder {
            clock,
            max_keys: self.max_keys,
            max_limits: self.max_limits,
            clean_period: self.clean_period,
            key_older_than: self.key_older_than,
            before_clean: self.before_clean,
            max_holds: self.max_holds,
            retain_holds: self.retain_holds,
        }
    }

    /// Sets the largest number of keys that have an entry, over all limits. The default is ten
    /// million. At the bound, known keys keep their exact states and unknown keys share one state
    /// per limit.
    ///
    /// This also bounds the memory: a key takes at most 400 bytes, and a tagged key at most 700,
    /// because longer keys are kept [as digests](crate::KeyRef::LONGEST). The log of a moving
    /// window takes additional memory.
    ///
    /// ```
    /// # use tollgate::{Memory, Source};
    /// let limiter = Memory::builder().max_keys(1).build().limiter("1/hour")?;
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
    /// # use tollgate::Memory;
    /// let store = Memory::builder().max_limits(1).build();
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
    /// let store = tollgate::Memory::builder().clean_period(Duration::from_secs(5)).build();
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
    /// let store = tollgate::Memory::builder().key_older_than(Duration::from_secs(86_400)).build();
    /// ```
    pub fn key_older_than(mut self, age: Duration) -> Self {
        self.key_older_than = Some(age);
        self
    }

    /// Sets the largest number of [holds](crate::hold) that are open at the same time. The default
    /// is one million. At the bound, opening another hold is an error; no hold is evicted. The
    /// records of as many settled holds are kept in addition, the newest.
    ///
    /// ```
    /// let store = tollgate::Memory::builder().max_holds(10_000).build();
    /// ```
    pub fn max_holds(mut self, max_holds: usize) -> Self {
        self.max_holds = max_holds;
        self
    }

    /// Sets the time for which the record of a hold is kept after its settlement or deadline, at
    /// most 30 days. The default is ten minutes. After that time its id is new.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let store = tollgate::Memory::builder().retain_holds(Duration::from_secs(3600)).build();
    /// ```
    pub fn retain_holds(mut self, time: Duration) -> Self {
        self.retain_holds = time.min(MAX_RETAIN);
        self
    }

    /// Sets a function that is called with batches of forgotten keys. Each forgotten key is passed
    /// exactly once. The function runs on the thread of a caller, without holding a lock, and may
    /// use limiters of any store. Its own calls never start cleaning: hits leave that to later
    /// callers, and [`Memory::clean`] returns 0. If the function panics, a warning is logged, and
    /// the keys are forgotten nevertheless.
    ///
    /// ```
    /// let store = tollgate::Memory::builder().before_clean(|batch| println!("{} keys", batch.len())).build();
    /// ```
    pub fn before_clean(mut self, f: impl Fn(&[Expired]) + Send + Sync + 'static) -> Self {
        self.before_clean = Some(Box::new(f));
        self
    }
}

impl<C: Clock> MemoryBuilder<C> {
    /// Creates the store.
    ///
    /// ```
    /// let store = tollgate::Memory::builder().build();
    /// ```
    #[must_use]
    pub fn build(self) -> Memory<C> {
        let clean_period = micros_up(self.clean_period);
        let now = self.clock.now();
        let shards =
            (0..SHARDS).map(|_| OwnLine(Mutex::new(Shard { aged_at: now, ..Shard::default() })));
        let inner = Inner {
            hasher: RandomState::default(),
            shards: shards.collect(),
            registry: Registry::new(self.max_limits.min(MOST_LIMITS)),
            count: Count::new(self.max_keys),
            clean_period,
            clean_due: AtomicU64::new(now.plus(clean_period).as_micros()),
            clean_cursor: AtomicUsize::new(0),
            key_older_than: self.key_older_than.map(micros_up),
            before_clean: self.before_clean,
            holds: HoldTable::new(self.max_holds),
            queues: Queues::default(),
            hold_terms: HoldTerms { retain: self.retain_holds, ..HoldTerms::default() },
            clock: self.clock,
        };
        Memory { inner: Arc::new(inner) }
    }
}
