//! The processor's counter gives the time between two readings of the operating system's clock.
//!
//! The counter only fills gaps of one [`SPAN`]. Then the operating system's clock is read again,
//! and it alone defines the time. So errors of the counter do not add up: whatever it does (run at
//! a wrong speed, stand still or restart in a suspend), the time is right again within two spans.
//! It goes back only if the counter does, and then by a span at most.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long a line is valid, in microseconds.
pub(super) const SPAN: u64 = 1_000;

/// Counters may differ between cores, and a processor may read its counter a little early. So a
/// line is also valid for this part of a span before its first reading.
const EARLY: u64 = 64;

/// A counter and the operating system's clock.
pub(super) trait Sources {
    /// The counter.
    fn ticks(&self) -> u64;
    /// The time by the operating system, in microseconds since the Unix epoch.
    fn os_micros(&self) -> u64;
}

/// The speed of the counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Microseconds in 2^40 ticks.
    micros: u64,
    /// Ticks in a [`SPAN`].
    span: u64,
}

impl Speed {
    /// The speed of a counter that makes 2^40 ticks in that many microseconds.
    pub(super) fn new(micros: u64) -> Speed {
        Speed { micros, span: (SPAN << 40) / micros.max(1) }
    }

    #[inline(always)]
    fn micros(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.micros)) >> 40) as u64
    }
}

/// The time as a function of the counter, for a [`SPAN`] of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// The first reading of the counter for which the line is valid.
    first: u64,
    /// The time when the counter was zero, if it had always run at this speed. Wraps.
    zero: u64,
}

impl Line {
    /// The line through one reading of the counter and of the operating system's clock.
    fn through(speed: Speed, ticks: u64, os_micros: u64) -> Line {
        Line {
            first: ticks.wrapping_sub(speed.span / EARLY),
            zero: os_micros.wrapping_sub(speed.micros(ticks)),
        }
    }

    /// The time at this reading of the counter, if the line is valid for it.
    #[inline(always)]
    fn at(self, speed: Speed, ticks: u64) -> Option<u64> {
        let holds = ticks.wrapping_sub(self.first) < speed.span;
        holds.then(|| self.zero.wrapping_add(speed.micros(ticks)))
    }

    /// The latest time that the line can give.
    fn end(self, speed: Speed) -> u64 {
        self.zero.wrapping_add(speed.micros(self.first.wrapping_add(speed.span)))
    }

    /// The next line, and the time now. If the counter was too fast, the time stands still at the
    /// end of the old line until the operating system's clock has passed it.
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
    /// [`Line::first`], written after `zero`.
    first: AtomicU64,
    /// [`Line::zero`].
    zero: AtomicU64,
    /// Held by the thread that replaces the line.
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

    /// Microseconds since the Unix epoch.
    #[inline(always)]
    pub(super) fn micros(&self) -> u64 {
        // The line is read before the counter. If another thread replaces the line between the two
        // loads, `first` is the old one and the counter is past its span.
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

    /// Reads the operating system's clock, because `seen` is no longer valid.
    #[cold]
    #[inline(never)]
    fn replace(&self, seen: Line) -> u64 {
        // If the thread that replaces the line was interrupted, other threads do not wait for it.
        let Ok(_replacing) = self.replacing.try_lock() else {
            return self.sources.os_micros().max(seen.end(self.speed));
        };
        // The counter is read first. An interruption between the two readings makes the new line
        // end late, but never lets it start before times that other threads got meanwhile.
        let ticks = self.sources.ticks();
        let (line, micros) = self.line().next(self.speed, ticks, self.sources.os_micros());
        self.zero.store(line.zero, Ordering::Relaxed);
        self.first.store(line.first, Ordering::Release);
        micros
    }
}

#[cfg(test)]
mod tests;
