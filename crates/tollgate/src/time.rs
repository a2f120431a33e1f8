//! Points in time: whole microseconds since the Unix epoch.

use std::fmt;
use std::time::{Duration, SystemTime};

/// A point in time, in whole microseconds since the Unix epoch.
///
/// Internal functions take the time as an argument, so tests can pass any time and need not sleep.
/// Arithmetic saturates at [`Timestamp::MAX`], some 146,000 years after the epoch, and never wraps.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
///
/// let start = Timestamp::from_micros(1_000_000);
/// assert_eq!(start + Duration::from_millis(5), Timestamp::from_micros(1_005_000));
/// assert_eq!(start.since(Timestamp::from_micros(400_000)), Duration::from_millis(600));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// The latest point in time: 2^62 - 1 microseconds, so that the sum of two timestamps never
    /// overflows a `u64`.
    pub const MAX: Timestamp = Timestamp((1 << 62) - 1);

    /// Returns the time this many microseconds after the Unix epoch, but at most
    /// [`Timestamp::MAX`].
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
    /// ```
    #[must_use]
    #[inline(always)]
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 { Self::latest() } else { Timestamp(micros) }
    }

    /// Returns the latest time. It is cold and not inlined, so that hits, which never take this
    /// branch, only pay for the comparison.
    #[cold]
    const fn latest() -> Self {
        Self::MAX
    }

    /// Returns the microseconds since the Unix epoch.
    ///
    /// ```
    /// # use tollgate::Timestamp;
    /// assert_eq!(Timestamp::from_micros(7).as_micros(), 7);
    /// ```
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this one, or zero if `earlier` is later than this one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::Timestamp;
    /// assert_eq!(Timestamp::from_micros(3).since(Timestamp::from_micros(5)), Duration::ZERO);
    /// ```
    #[must_use]
    pub const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.micros_since(earlier))
    }

    pub(crate) const fn micros_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) const fn plus(self, micros: u64) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_add(micros))
    }

    /// Adds as [`plus`](Timestamp::plus) does, where the caller knows that the sum is at most
    /// [`Timestamp::MAX`]. This spares the hit path a comparison.
    #[inline(always)]
    pub(crate) const fn plus_small(self, micros: u64) -> Timestamp {
        let sum = self.0.wrapping_add(micros);
        debug_assert!(sum <= Timestamp::MAX.0);
        Timestamp(sum)
    }

    pub(crate) const fn minus(self, micros: u64) -> Timestamp {
        Timestamp(self.0.saturating_sub(micros))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;

    /// Rounds up to whole microseconds, so that a wait is never too short.
    fn add(self, span: Duration) -> Timestamp {
        self.plus(micros_up(span))
    }
}

/// The last second of the year 9999.
const YEAR_9999: Duration = Duration::from_secs(253_402_300_799);

/// Rounds down to the microsecond. A time before 1970 becomes [`Timestamp::EPOCH`].
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tollgate::Timestamp;
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
/// assert_eq!(Timestamp::from(time), Timestamp::from_micros(5_000_000));
/// ```
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
    }
}

/// A time that the platform cannot represent becomes the end of the year 9999. On Windows, for
/// example, times end before the year 31,000.
///
/// ```
/// use std::time::SystemTime;
/// use tollgate::Timestamp;
///
/// let time = Timestamp::from_micros(5_000_000);
/// assert_eq!(Timestamp::from(SystemTime::from(time)), time);
/// ```
impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> SystemTime {
        let since_epoch = Duration::from_micros(time.as_micros());
        let known = SystemTime::UNIX_EPOCH.checked_add(since_epoch);
        known.unwrap_or(SystemTime::UNIX_EPOCH + YEAR_9999)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Returns `span` in seconds, rounded up: a client that waits for them is not too early.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(tollgate::seconds_up(Duration::from_millis(1_001)), 2);
/// assert_eq!(tollgate::seconds_up(Duration::from_secs(2)), 2);
/// ```
#[inline]
#[must_use]
pub const fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add((span.subsec_nanos() > 0) as u64)
}

/// Returns `span` in microseconds, rounded up and at most `u64::MAX`.
pub(crate) fn micros_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_times_convert_to_whole_microseconds_and_back() {
        let at = |nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        assert_eq!(Timestamp::from(at(1_999)), Timestamp::from_micros(1));
        assert_eq!(SystemTime::from(Timestamp::from_micros(7)), at(7_000));
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Timestamp::from(before_1970), Timestamp::EPOCH);
        assert!(SystemTime::from(Timestamp::MAX) >= SystemTime::UNIX_EPOCH + YEAR_9999);
    }
}
