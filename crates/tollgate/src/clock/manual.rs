//! A clock for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Clock;
use crate::time::{Timestamp, micros_up};

/// A clock for tests, which stands still until the program moves it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, ManualClock, Memory, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::from_micros(0));
/// let limiter = Memory::builder().clock(clock.clone()).build().limiter(Limit::per_second(1))?;
/// assert!(limiter.hit("a").allowed());
/// assert!(!limiter.hit("a").allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.hit("a").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
}

impl ManualClock {
    /// Creates a clock that stands at `now`. Clones share the same time.
    ///
    /// ```
    /// # use tollgate::{Clock, ManualClock, Timestamp};
    /// assert_eq!(ManualClock::new(Timestamp::EPOCH).now(), Timestamp::EPOCH);
    /// ```
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        ManualClock { micros: Arc::new(AtomicU64::new(now.as_micros())) }
    }

    /// Moves the clock forward.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::default();
    /// clock.advance(Duration::from_micros(5));
    /// assert_eq!(clock.now(), Timestamp::from_micros(5));
    /// ```
    pub fn advance(&self, span: Duration) {
        self.micros.fetch_add(micros_up(span), Ordering::SeqCst);
    }

    /// Sets the time. It may be earlier than before.
    ///
    /// ```
    /// # use tollgate::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::new(Timestamp::from_micros(9));
    /// clock.set(Timestamp::from_micros(3));
    /// assert_eq!(clock.now(), Timestamp::from_micros(3));
    /// ```
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}
