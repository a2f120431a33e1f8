//! The only place that reads the time.
//!
//! [`SystemClock`] is a clock that never goes back plus the wall time of its start. Reading the
//! operating system's clock costs some 23 ns, more than the rest of a hit; the processor's counter
//! costs some 10 ns. So where the Linux kernel uses the counter for its own clock (it checks that
//! all cores agree), we read the counter, and the operating system's clock once in a millisecond
//! ([`counter`]). Everywhere else we ask the operating system each time.

mod counter;
mod manual;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crate::time::{Timestamp, micros_up};
use counter::{Counter, Sources, Speed};
pub use manual::ManualClock;

/// Tells the time to a store.
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
    /// The time now. It should never go back. If it does, no additional hit is admitted.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The time of this machine: starts at the wall clock's, then never goes back. All clocks of a
/// process tell the same time.
///
/// Setting the date does not change it. On Linux and Android it counts time during which the
/// machine is suspended; elsewhere that depends on the operating system. Two threads may see times
/// out of order by a microsecond or two, because a processor may read its counter a little early.
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
    /// The clock of this process.
    ///
    /// Where it uses the processor's counter, the first call in a process measures the counter's
    /// speed: that takes under a millisecond on an idle machine, and at most a fifth of a second.
    ///
    /// ```
    /// let clock = tollgate::SystemClock::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        static PROCESS: OnceLock<ProcessClock> = OnceLock::new();
        SystemClock { process: PROCESS.get_or_init(ProcessClock::start) }
    }

    /// A clock of its own, which reads of other clocks do not update.
    #[cfg(test)]
    fn apart() -> Self {
        SystemClock { process: Box::leak(Box::new(ProcessClock::start())) }
    }

    /// Whether the processor's counter is in use.
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

/// The processor's counter, read without converting it, and the operating system's clock.
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

/// The operating system's monotonic clock, offset to the wall time of its start.
#[derive(Clone, Copy, Debug)]
struct OsClock {
    /// Wall time minus [`os_time`], in microseconds.
    ahead: u64,
}

impl OsClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
    fn start() -> OsClock {
        let (os, wall) = (os_time(), SystemTime::now());
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A later wall clock counts as the year 2255, so that centuries remain.
        OsClock { ahead: micros_up(since_epoch).min(1 << 53).saturating_sub(whole_micros(os)) }
    }

    fn micros(&self) -> u64 {
        self.ahead + whole_micros(os_time())
    }
}

fn whole_micros(span: Duration) -> u64 {
    span.as_secs() * 1_000_000 + u64::from(span.subsec_micros())
}

/// Time since the machine was started, with suspended time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn os_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Time since the first call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(clippy::disallowed_methods, reason = "the only place that reads the monotonic clock")]
fn os_time() -> Duration {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
#[cfg(not(loom))]
mod real_time;
