//! The time between two readings of the operating system's clock, by the processor's counter.
//!
//! The counter only fills gaps of one [`SPAN`]: after that the operating system's clock is read
//! again, and it alone says what time it is. So no error of the counter adds up: whatever it does
//! (run at a wrong speed, stand still or begin anew in a suspend), one span later the time is right
//! again, within two spans. It goes back only if the counter does, and then by a span at most.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long a line is used, in microseconds.
pub(super) const SPAN: u64 = 1_000;

/// Counters may differ between cores, and a processor may read its counter a little early. A line
/// holds for that part of a span before its first reading, too.
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
    /// Of a counter that makes 2^40 ticks in that many microseconds.
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
    /// The first reading of the counter for which it holds.
    first: u64,
    /// The time when the counter was zero, had it always run at this speed. Wraps.
    zero: u64,
}

impl Line {
    /// The line on which the counter and the operating system's clock were read.
    fn through(speed: Speed, ticks: u64, os_micros: u64) -> Line {
        Line {
            first: ticks.wrapping_sub(speed.span / EARLY),
            zero: os_micros.wrapping_sub(speed.micros(ticks)),
        }
    }

    /// The time at this reading of the counter, if the line holds for it.
    #[inline(always)]
    fn at(self, speed: Speed, ticks: u64) -> Option<u64> {
        let holds = ticks.wrapping_sub(self.first) < speed.span;
        holds.then(|| self.zero.wrapping_add(speed.micros(ticks)))
    }

    /// Nobody was told a later time than this by the line.
    fn end(self, speed: Speed) -> u64 {
        self.zero.wrapping_add(speed.micros(self.first.wrapping_add(speed.span)))
    }

    /// The line that holds from now on, and the time to tell now. If the counter was too fast, the
    /// time stands still at the end of the line until the operating system's clock has passed it.
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

    /// Reads the operating system's clock, because `seen` does not hold any more.
    #[cold]
    #[inline(never)]
    fn replace(&self, seen: Line) -> u64 {
        // Nobody waits for a thread that was interrupted here.
        let Ok(_replacing) = self.replacing.try_lock() else {
            return self.sources.os_micros().max(seen.end(self.speed));
        };
        // The counter first: an interruption between the two makes the line late to end, never
        // behind the times that others are told meanwhile.
        let ticks = self.sources.ticks();
        let (line, micros) = self.line().next(self.speed, ticks, self.sources.os_micros());
        self.zero.store(line.zero, Ordering::Relaxed);
        self.first.store(line.first, Ordering::Release);
        micros
    }
}

#[cfg(test)]
mod tests;
