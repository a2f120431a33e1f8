//! The only file that reads the time.
//!
//! [`SystemClock`] is a monotonic clock plus the wall time of its start, so it never goes back when somebody sets the date. Reading the operating
//! system's monotonic clock costs some 23 ns, more than the rest of a hit. The processor's time stamp counter costs some 10 ns, but may be
//! unsynchronised between cores or change its speed. We do not judge that ourselves: where the kernel uses the counter for its own clock
//! (Linux, `current_clocksource` is `tsc`) it has checked the cores against each other and watches them, so we use it too; everywhere else we
//! ask the operating system. Even then the counter only interpolates: once in [`STRETCH`] the clock is anchored anew on the operating system's,
//! with the speed adjusted so that the two meet again, so neither a rough calibration nor a drift adds up. If the two ever differ grossly, the
//! counter is not used again.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use crate::time::{Timestamp, micros_up};

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
    /// The time now. It should never go back; if it does, nothing more is admitted for that.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The time of this machine: starts at the wall clock's, then runs monotonically.
///
/// ```
/// use tollgate::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy)]
pub struct SystemClock {
    os: &'static OsClock,
    counter: Option<&'static Counter>,
}

impl SystemClock {
    /// The clock of this process. The first call calibrates the counter, which takes some 20 milliseconds.
    ///
    /// ```
    /// let clock = tollgate::SystemClock::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        static PROCESS: OnceLock<ProcessClock> = OnceLock::new();
        let process = PROCESS.get_or_init(ProcessClock::start);
        SystemClock { os: &process.os, counter: process.counter.as_ref() }
    }

    /// Whether the processor's counter is in use.
    ///
    /// ```
    /// println!("by counter: {}", tollgate::SystemClock::new().uses_counter());
    /// ```
    #[must_use]
    pub fn uses_counter(&self) -> bool {
        self.counter.is_some_and(|counter| !counter.broken.load(Ordering::Relaxed))
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
        match self.counter {
            Some(counter) => Timestamp::EPOCH.plus_small(counter.grains() >> GRAIN),
            None => self.os.now(),
        }
    }
}

/// Set up once: all clocks of a process tell the same time.
#[derive(Debug)]
struct ProcessClock {
    os: OsClock,
    counter: Option<Counter>,
}

impl ProcessClock {
    fn start() -> ProcessClock {
        let os = OsClock::start();
        ProcessClock { os, counter: kernel_trusts_counter().then(|| Counter::start(os)) }
    }
}

/// The operating system's monotonic clock, with the wall time of its start.
#[derive(Clone, Copy, Debug)]
struct OsClock {
    start: Instant,
    /// In grains.
    wall: u64,
}

impl OsClock {
    #[allow(clippy::disallowed_methods)] // the only place that reads the wall clock
    fn start() -> OsClock {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let since_epoch = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // In 2255 at the latest, so that there is room for centuries more.
        OsClock { start, wall: micros_up(since_epoch).min(1 << 53) << GRAIN }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.grains() >> GRAIN)
    }

    #[allow(clippy::disallowed_methods)] // the only place that reads the monotonic clock
    #[inline(never)]
    fn grains(&self) -> u64 {
        let nanos = Instant::now().duration_since(self.start).as_nanos();
        self.wall.saturating_add(u64::try_from((nanos << GRAIN) / 1000).unwrap_or(u64::MAX))
    }
}

/// Inside, time is counted in grains of 2^-10 microseconds since the Unix epoch: a shift makes microseconds of them.
const GRAIN: u32 = 10;

fn kernel_trusts_counter() -> bool {
    const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
        && std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// Grains between two anchors: a second.
const STRETCH: u64 = 1_000_000 << GRAIN;

/// What the counter is believed without a look at the other clock: who slept for longer is told by that one. So nobody is told of a suspend that the counter went
/// on through, and the clock never stands still for longer than this.
const BELIEVED: u64 = 2 * STRETCH;

/// The processor's counter, anchored on the operating system's clock.
///
/// There are two anchors. A writer fills the one that is not in use and then raises `published`, so a writer that is suspended half way holds up
/// nobody; a reader that slept through two turns sees that `published` has moved and reads again.
#[derive(Debug)]
struct Counter {
    source: quanta::Clock,
    os: OsClock,
    published: AtomicUsize,
    anchors: [Anchor; 2],
    /// The first reading: the longer ago, the better the speed that follows from it.
    anchoring: Mutex<Reading>,
    broken: AtomicBool,
}

/// Where the line starts that the clock follows, and how steep it is.
#[derive(Debug, Default)]
struct Anchor {
    ticks: AtomicU64,
    grains: AtomicU64,
    /// Grains per tick, in 2^-32.
    speed: AtomicU64,
    /// Ticks for which the line holds: about a [`STRETCH`], and few enough that their product with the speed fits 64 bits.
    span: AtomicU64,
}

impl Anchor {
    /// Ticks by which the counter is behind.
    fn lag(&self, ticks: u64) -> u64 {
        self.ticks.load(Ordering::Relaxed).saturating_sub(ticks)
    }
}

/// Both clocks at one instant.
#[derive(Debug)]
struct Reading {
    ticks: u64,
    grains: u64,
}

impl Reading {
    /// The best of several: the thread may be suspended between the two clocks, so the one is read before and after the other.
    fn take(source: &quanta::Clock, os: &OsClock) -> Reading {
        let one = || {
            let before = source.raw();
            let grains = os.grains();
            let apart = source.raw().saturating_sub(before);
            (apart, Reading { ticks: before + apart / 2, grains })
        };
        let (mut least, mut best) = one();
        for _ in 0..16 {
            let (apart, reading) = one();
            if apart < least {
                (least, best) = (apart, reading);
            }
        }
        best
    }

    /// Grains per tick, in 2^-32.
    fn speed_since(&self, first: &Reading) -> u64 {
        let ticks = self.ticks.saturating_sub(first.ticks);
        mul_div(self.grains.saturating_sub(first.grains), 1 << 32, ticks.max(1))
    }
}

impl Counter {
    fn start(os: OsClock) -> Counter {
        let source = quanta::Clock::new();
        let first = Reading::take(&source, &os);
        // Ten milliseconds tell the speed to a few millionths; the anchors that follow mend the rest.
        while os.grains() - first.grains < (10_000 << GRAIN) {
            std::hint::spin_loop();
        }
        let last = Reading::take(&source, &os);
        let speed = last.speed_since(&first);
        let counter = Counter {
            source,
            os,
            published: AtomicUsize::new(0),
            anchors: Default::default(),
            anchoring: Mutex::new(first),
            broken: AtomicBool::new(speed == 0),
        };
        counter.publish(last.ticks, last.grains, speed);
        counter
    }

    /// Grains since the Unix epoch.
    #[inline(always)]
    fn grains(&self) -> u64 {
        let now = self.source.raw();
        let published = self.published.load(Ordering::Acquire);
        let anchor = &self.anchors[published % 2];
        let grains = anchor.grains.load(Ordering::Relaxed);
        let speed = anchor.speed.load(Ordering::Relaxed);
        let span = anchor.span.load(Ordering::Relaxed);
        // Wraps to more than any span on a core whose counter lags behind the anchor.
        let ticks = now.wrapping_sub(anchor.ticks.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if published != self.published.load(Ordering::Relaxed) || ticks > span {
            return self.grains_with_care();
        }
        grains + ((ticks * speed) >> 32)
    }

    /// [`grains`](Counter::grains) when the line has ended, or was anchored while we read.
    #[cold]
    #[inline(never)]
    fn grains_with_care(&self) -> u64 {
        loop {
            match self.follow() {
                Some((grains, passed)) if passed <= STRETCH => return grains + passed,
                Some((grains, passed)) => return self.anchor(grains, passed),
                None => {}
            }
        }
    }

    /// What the clock said at its anchor and what has passed since; nothing if it was anchored while we read.
    fn follow(&self) -> Option<(u64, u64)> {
        let now = self.source.raw();
        let published = self.published.load(Ordering::Acquire);
        let anchor = &self.anchors[published % 2];
        let grains = anchor.grains.load(Ordering::Relaxed);
        let passed = match anchor.lag(now) {
            0 => {
                let ticks = now.saturating_sub(anchor.ticks.load(Ordering::Relaxed));
                scale(ticks, anchor.speed.load(Ordering::Relaxed))
            }
            // A core whose counter lags behind the anchor is told the anchor's time, never an earlier one.
            lag if lag <= anchor.span.load(Ordering::Relaxed) => 0,
            // The line has ended with the counter, which began anew.
            _ => STRETCH + 1,
        };
        fence(Ordering::Acquire);
        (published == self.published.load(Ordering::Relaxed)).then_some((grains, passed))
    }

    /// Anchors the clock anew. It said `grains` at the last anchor, and will not say less than what it says now.
    fn anchor(&self, grains: u64, passed: u64) -> u64 {
        if self.broken.load(Ordering::Relaxed) {
            return grains.max(self.os.grains());
        }
        let told = grains.saturating_add(passed.min(BELIEVED));
        let first = match self.anchoring.try_lock() {
            Ok(first) => first,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody else is at it.
            Err(TryLockError::WouldBlock) => return told.max(self.os.grains()),
        };
        let now = Reading::take(&self.source, &self.os);
        // Nobody else writes: we hold the lock.
        let Some((grains, passed)) = self.follow() else { return told };
        if passed <= STRETCH {
            return told.max(grains + passed);
        }
        let line = grains.saturating_add(passed.min(BELIEVED)).max(told);
        let true_speed = now.speed_since(&first);
        let near = STRETCH / 100;
        let fell_back = self.anchors[self.published.load(Ordering::Relaxed) % 2].lag(now.ticks) > 0;
        if line > now.grains + near || true_speed == 0 || fell_back {
            // It ran ahead by more than any calibration can explain, as when it went on through a suspend, or began anew. Stand still until the other clock has
            // caught up, and stay with that one.
            self.broken.store(true, Ordering::Relaxed);
            // A line that everybody finds too old, so that all come here.
            self.publish(0, line, 1 << 33);
        } else if now.grains > line + near {
            // A gap, as after a suspend: jump.
            self.publish(now.ticks, now.grains, true_speed);
        } else {
            // Meet the other clock at the end of the next stretch.
            let target = (now.grains + STRETCH).saturating_sub(line);
            self.publish(now.ticks, line, mul_div(true_speed, target, STRETCH));
        }
        line
    }

    /// Only one at a time: by the starter, or by the holder of `anchoring`.
    fn publish(&self, ticks: u64, grains: u64, speed: u64) {
        let next = self.published.load(Ordering::Relaxed).wrapping_add(1);
        let anchor = &self.anchors[next % 2];
        // A line from the beginning of the counter is one that has ended.
        let span = if ticks == 0 { 0 } else { (STRETCH << 32) / speed.max(1) };
        // A reader that sees any of the stores below also sees that `published` moved on from its turn.
        fence(Ordering::Release);
        anchor.ticks.store(ticks, Ordering::Relaxed);
        anchor.grains.store(grains, Ordering::Relaxed);
        anchor.speed.store(speed, Ordering::Relaxed);
        anchor.span.store(span, Ordering::Relaxed);
        self.published.store(next, Ordering::Release);
    }
}

/// What passes in that many ticks. Fits 64 bits as long as there are less than 2^62 ticks, which is decades, at less than four grainseconds each.
fn scale(ticks: u64, speed: u64) -> u64 {
    ((u128::from(ticks) * u128::from(speed)) >> 32) as u64
}

fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX)
}

/// A clock that stands still until it is told to move: for tests, yours too.
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
    /// A clock that says `now`. Clones share the time.
    ///
    /// ```
    /// # use tollgate::{Clock, ManualClock, Timestamp};
    /// assert_eq!(ManualClock::new(Timestamp::EPOCH).now(), Timestamp::EPOCH);
    /// ```
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        ManualClock { micros: Arc::new(AtomicU64::new(now.as_micros())) }
    }

    /// Moves it forward.
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

    /// Puts it at a time, which may lie before the one it told.
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600 * STRETCH;

    /// A clock whose line began now, and whose counter ran on for an hour meanwhile, or is an hour behind.
    fn after_a_suspend(ran_on: bool) -> (Counter, u64) {
        let counter = Counter::start(OsClock::start());
        let now = Reading::take(&counter.source, &counter.os);
        let speed = counter.anchors[1].speed.load(Ordering::Relaxed);
        let hour = mul_div(HOUR, 1 << 32, speed);
        let ticks = if ran_on { now.ticks.saturating_sub(hour).max(1) } else { now.ticks + hour };
        counter.publish(ticks, now.grains, speed);
        (counter, now.grains)
    }

    /// Reads the clock until the system's has gone on for so long.
    fn read_for(counter: &Counter, grains: u64) -> u64 {
        let end = counter.os.grains() + grains;
        let mut told = counter.grains();
        while counter.os.grains() < end {
            let next = counter.grains();
            assert!(next >= told, "it went back");
            told = next;
        }
        told
    }

    #[test]
    fn a_counter_that_went_on_through_a_suspend_is_not_believed() {
        let (counter, began) = after_a_suspend(true);
        assert!(counter.grains() <= began + BELIEVED);
        let told = read_for(&counter, BELIEVED + STRETCH / 10);
        assert!(told > began + BELIEVED, "it stands still");
        assert!(told <= counter.os.grains());
    }

    #[test]
    fn a_counter_that_began_anew_is_not_waited_for() {
        let (counter, began) = after_a_suspend(false);
        let told = read_for(&counter, STRETCH + STRETCH / 5);
        assert!(told > began + STRETCH, "it stands still");
        assert!(told <= counter.os.grains());
    }

    #[test]
    fn a_core_that_lags_a_little_is_told_the_anchors_time() {
        let counter = Counter::start(OsClock::start());
        let now = Reading::take(&counter.source, &counter.os);
        let speed = counter.anchors[1].speed.load(Ordering::Relaxed);
        counter.publish(now.ticks + mul_div(STRETCH / 2, 1 << 32, speed), now.grains, speed);
        assert!(counter.grains() >= now.grains);
        assert!(!counter.broken.load(Ordering::Relaxed));
    }
}
