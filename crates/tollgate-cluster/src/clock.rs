//! The clock by which allotments end. It also counts the time for which the machine is suspended.

use tollgate::{Clock, Timestamp};

/// Time since this machine was started, suspended or not. Only differences are meaningful.
///
/// On Linux it is `CLOCK_BOOTTIME`. Elsewhere it is [`SystemClock`](tollgate::SystemClock), which
/// on some systems stands still during suspend. There an expired allotment may be spent once after
/// the machine has resumed.
///
/// ```
/// use tollgate::Clock;
/// use tollgate_cluster::BootClock;
/// let clock = BootClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock {
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    clock: tollgate::SystemClock,
}

impl BootClock {
    /// The clock.
    ///
    /// See the example of [`BootClock`].
    #[must_use]
    pub fn new() -> BootClock {
        BootClock::default()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let whole = |part: i64| u64::try_from(part).unwrap_or(0);
        Timestamp::from_micros(whole(time.tv_sec) * 1_000_000 + whole(time.tv_nsec) / 1_000)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
