//! The only module that reads the time.
//!
//! [`SystemClock`] starts with the wall time and then follows a clock that never goes back. Reading
//! the operating system's clock takes some 23 ns, more than the rest of a hit; reading the
//! processor's counter of ticks takes some 10 ns. If the Linux kernel uses that counter for its own
//! clock (it checks that all cores agree), we read the counter, and the operating system's clock
//! only once in a millisecond ([`counter`]). On other systems we read the operating system's clock
//! each time.

mod counter;
mod manual;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crate::time::{Timestamp, micros_up};
use counter::{Counter, Sources, Speed};
pub use manual::ManualClock;

/// The source of the time for a store.
///
/// ```
/// use tollgate::{Clock, Timestamp};
///
/// #[derive(Debug)]
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_micros(1_000_000)
///     }
/// }
/// ```
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time. It should never go back. If it does, no additional hit is
    /// admitted.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The time of this machine. It starts with the wall time and then never goes back. All clocks of a
/// process show the same time.
///
/// Setting the date of the machine does not change this clock. On Linux and Android it includes the
/// time during which the machine is suspended; elsewhere that depends on the operating system. The
/// times that two threads read may be out of order by one or two microseconds, because a processor
/// may read its counter before an earlier instruction.
///
/// ```
/// use tollgate::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy)]
pub struct SystemClock {
    process: &'static ProcessClock,
}

impl SystemClock {
    /// Creates the clock of this process.
    ///
    /// If the clock uses the processor's counter, the first call in a process measures the speed of
    /// the counter. That takes less than a millisecond on an idle machine, and at most 200
    /// milliseconds.
    ///
    /// ```
    /// let clock = tollgate::SystemClock::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        static PROCESS: OnceLock<ProcessClock> = OnceLock::new();
        SystemClock { process: PROCESS.get_or_init(ProcessClock::start) }
    }

    /// Creates a separate clock. Reading other clocks does not update it.
    #[cfg(test)]
    fn apart() -> Self {
        SystemClock { process: Box::leak(Box::new(ProcessClock::start())) }
    }

    /// Returns whether this clock uses the processor's counter.
    ///
    /// ```
    /// println!("by counter: {}", tollgate::SystemClock::new().uses_counter());
    /// ```
    #[must_use]
    pub fn uses_counter(&self) -> bool {
        matches!(self.process, ProcessClock::Counter(_))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl std::fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemClock").field("uses_counter", &self.uses_counter()).finish()
    }
}

impl Clock for SystemClock {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        let micros = match self.process {
            ProcessClock::Counter(counter) => counter.micros(),
            ProcessClock::Os(os) => os.micros(),
        };
        Timestamp::EPOCH.plus_small(micros)
    }
}

#[derive(Debug)]
enum ProcessClock {
    Os(OsClock),
    Counter(Counter<Processor>),
}

impl ProcessClock {
    fn start() -> ProcessClock {
        if !kernel_trusts_counter() {
            return ProcessClock::Os(OsClock::start());
        }
        let (processor, speed) = Processor::start();
        ProcessClock::Counter(Counter::new(processor, speed))
    }
}

fn kernel_trusts_counter() -> bool {
    const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
        && std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// The processor's counter in unconverted ticks, and the operating system's clock.
#[derive(Debug)]
struct Processor {
    counter: quanta::Clock,
    os: OsClock,
}

impl Processor {
    fn start() -> (Processor, Speed) {
        let counter = quanta::Clock::new();
        let speed = Speed::new(counter.delta_as_nanos(0, 1 << 40) / 1_000);
        (Processor { counter, os: OsClock::start() }, speed)
    }
}

impl Sources for Processor {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.counter.raw()
    }

    fn os_micros(&self) -> u64 {
        self.os.micros()
    }
}

/// The operating system's monotonic clock, shifted so that it starts with the wall time.
#[derive(Clone, Copy, Debug)]
struct OsClock {
    /// The wall time at the start minus [`os_time`], in microseconds.
    ahead: u64,
}

impl OsClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
    fn start() -> OsClock {
        let (os, wall) = (os_time(), SystemTime::now());
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A wall clock after the year 2255 is set to that year, so that the sum stays in range for
        // centuries.
        OsClock { ahead: micros_up(since_epoch).min(1 << 53).saturating_sub(whole_micros(os)) }
    }

    fn micros(&self) -> u64 {
        self.ahead + whole_micros(os_time())
    }
}

fn whole_micros(span: Duration) -> u64 {
    span.as_secs() * 1_000_000 + u64::from(span.subsec_micros())
}

/// Returns the time since the machine was started. It includes the time in which the machine was
/// suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn os_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the time since the first call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(clippy::disallowed_methods, reason = "the only place that reads the monotonic clock")]
fn os_time() -> Duration {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
#[cfg(not(loom))]
mod real_time;
