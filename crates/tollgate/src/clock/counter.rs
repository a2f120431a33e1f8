//! A clock that uses the processor's counter of ticks between two readings of the operating
//! system's clock.
//!
//! The counter is used for one [`SPAN`] only. Then the operating system's clock is read again, and
//! it alone defines the time. So errors of the counter do not add up: even if it runs at a wrong
//! speed, or stands still or restarts while the machine is suspended, the time is right again
//! within two spans. The time goes back only if the counter does, and then by at most one span.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time for which a [`Line`] is valid, in microseconds.
pub(super) const SPAN: u64 = 1_000;

/// A line is also valid for `1 / EARLY` of a span before its first reading. Counters may differ
/// between cores, and a processor may read its counter before an earlier instruction.
const EARLY: u64 = 64;

/// A counter and the operating system's clock.
pub(super) trait Sources {
    /// Returns the value of the counter, in ticks.
    fn ticks(&self) -> u64;
    /// Returns the time of the operating system's clock, in microseconds since the Unix epoch.
    fn os_micros(&self) -> u64;
}

/// The speed of the counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// The microseconds in 2^40 ticks.
    micros: u64,
    /// The ticks in a [`SPAN`].
    span: u64,
}

impl Speed {
    /// Creates the speed of a counter that makes 2^40 ticks in this many microseconds.
    pub(super) fn new(micros: u64) -> Speed {
        Speed { micros, span: (SPAN << 40) / micros.max(1) }
    }

    #[inline(always)]
    fn micros(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.micros)) >> 40) as u64
    }
}

/// The time as a linear function of the counter, valid for a [`SPAN`] of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// The first reading of the counter for which the line is valid.
    first: u64,
    /// The time at which the counter would have been zero if it had always run at this speed. It
    /// may wrap around.
    zero: u64,
}

impl Line {
    /// Creates the line from one reading of the counter and of the operating system's clock.
    fn through(speed: Speed, ticks: u64, os_micros: u64) -> Line {
        Line {
            first: ticks.wrapping_sub(speed.span / EARLY),
            zero: os_micros.wrapping_sub(speed.micros(ticks)),
        }
    }

    /// Returns the time at this reading of the counter, if the line is valid for it.
    #[inline(always)]
    fn at(self, speed: Speed, ticks: u64) -> Option<u64> {
        let holds = ticks.wrapping_sub(self.first) < speed.span;
        holds.then(|| self.zero.wrapping_add(speed.micros(ticks)))
    }

    /// Returns the end of the line: no time on it is later.
    fn end(self, speed: Speed) -> u64 {
        self.zero.wrapping_add(speed.micros(self.first.wrapping_add(speed.span)))
    }

    /// Returns the next line and the current time. If the counter was too fast, the time stays at
    /// the end of the old line until the operating system's clock is later than that.
    fn next(self, speed: Speed, ticks: u64, os_micros: u64) -> (Line, u64) {
        if let Some(micros) = self.at(speed, ticks) {
            return (self, micros);
        }
        let end = self.end(speed);
        if os_micros <= end {
            return (self, end);
        }
        (Line::through(speed, ticks, os_micros), os_micros)
    }
}

/// A clock that many threads read.
#[derive(Debug)]
pub(super) struct Counter<S> {
    sources: S,
    speed: Speed,
    /// The value of [`Line::first`]. It is written after `zero`.
    first: AtomicU64,
    /// The value of [`Line::zero`].
    zero: AtomicU64,
    /// The lock that a thread holds while it replaces the line.
    replacing: Mutex<()>,
}

impl<S: Sources> Counter<S> {
    pub(super) fn new(sources: S, speed: Speed) -> Counter<S> {
        let ticks = sources.ticks();
        let line = Line::through(speed, ticks, sources.os_micros());
        Counter {
            sources,
            speed,
            first: AtomicU64::new(line.first),
            zero: AtomicU64::new(line.zero),
            replacing: Mutex::new(()),
        }
    }

    /// Returns the microseconds since the Unix epoch.
    #[inline(always)]
    pub(super) fn micros(&self) -> u64 {
        // The line is read before the counter. If another thread replaces the line between the
        // loads of `first` and `zero`, `first` is old, and the counter is beyond the span of the
        // old line.
        let line = self.line();
        match line.at(self.speed, self.sources.ticks()) {
            Some(micros) => micros,
            None => self.replace(line),
        }
    }

    #[cfg(test)]
    pub(super) fn sources(&self) -> &S {
        &self.sources
    }

    #[inline(always)]
    fn line(&self) -> Line {
        let first = self.first.load(Ordering::Acquire);
        Line { first, zero: self.zero.load(Ordering::Relaxed) }
    }

    /// Reads the operating system's clock and replaces the line, because the line `seen` is no
    /// longer valid.
    #[cold]
    #[inline(never)]
    fn replace(&self, seen: Line) -> u64 {
        // Another thread is replacing the line. It may be interrupted, so this thread does not wait
        // for it.
        let Ok(_replacing) = self.replacing.try_lock() else {
            return self.sources.os_micros().max(seen.end(self.speed));
        };
        // The counter is read first. If the thread is interrupted between the two readings, the new
        // line is late. It never starts before a time that another thread has read meanwhile.
        let ticks = self.sources.ticks();
        let (line, micros) = self.line().next(self.speed, ticks, self.sources.os_micros());
        self.zero.store(line.zero, Ordering::Relaxed);
        self.first.store(line.first, Ordering::Release);
        micros
    }
}

#[cfg(test)]
mod tests;
