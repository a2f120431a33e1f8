//! A histogram of single calls, so that rare slow calls are visible, with the part of them in which
//! the kernel had given the core to another process.

use crate::measure::{tick_clock, waited_for_core};
use std::time::Duration;

/// Buckets per power of two: a figure is at most 1/16 too high.
const FINE: u32 = 4;

/// The kernel's statistics are read for calls that take longer than this.
const SLOW: Duration = Duration::from_micros(20);

/// Lengths of calls, in ticks of the time stamp counter.
pub(crate) struct Tail {
    clock: quanta::Clock,
    slow: u64,
    buckets: Vec<u64>,
    calls: u64,
    longest: u64,
    longest_own: u64,
    waits: u64,
    waited: Duration,
}

/// The figures of a [`Tail`], in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct TailFigures {
    /// The values of [`QUANTILES`].
    pub(crate) quantiles: [f64; QUANTILES.len()],
    /// Calls up to each of [`BOUNDS`] and over the previous one; the last is all longer ones.
    pub(crate) counts: [f64; BOUNDS.len()],
    pub(crate) longest: f64,
    /// The longest call, without the time in which the thread had to wait for a core.
    pub(crate) longest_own: f64,
    /// Slow calls that had to wait for a core.
    pub(crate) waits: f64,
    /// The number of keys at the end, if the contender counts them.
    pub(crate) keys: Option<f64>,
}

pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The coarse histogram: names and nanoseconds.
pub(crate) const BOUNDS: [(&str, f64); 8] = [
    ("to 0.1 µs", 1e2),
    ("to 1 µs", 1e3),
    ("to 10 µs", 1e4),
    ("to 0.1 ms", 1e5),
    ("to 0.5 ms", 5e5),
    ("to 1 ms", 1e6),
    ("to 10 ms", 1e7),
    ("longer", f64::INFINITY),
];

impl Tail {
    pub(crate) fn new() -> Self {
        let clock = tick_clock();
        // The length of a tick is unknown: take the first power of two that is slow.
        let slow = (0..40)
            .map(|shift| 1_u64 << shift)
            .find(|ticks| u128::from(clock.delta_as_nanos(0, *ticks)) >= SLOW.as_nanos())
            .unwrap_or(u64::MAX);
        Self {
            clock,
            slow,
            buckets: vec![0; 64 << FINE],
            calls: 0,
            longest: 0,
            longest_own: 0,
            waits: 0,
            waited: waited_for_core(),
        }
    }

    /// The start of the first call.
    pub(crate) fn now(&self) -> u64 {
        self.clock.raw()
    }

    /// Records a call that began at `start`; returns the start of the next. One reading ends a call
    /// and begins the next, so no time can hide between them.
    #[inline]
    pub(crate) fn record(&mut self, start: u64) -> u64 {
        let end = self.clock.raw();
        let ticks = end.saturating_sub(start);
        self.calls += 1;
        if let Some(bucket) = self.buckets.get_mut(bucket(ticks)) {
            *bucket += 1;
        }
        self.longest = self.longest.max(ticks);
        if ticks >= self.slow {
            return self.examine(ticks);
        }
        self.longest_own = self.longest_own.max(ticks);
        end
    }

    /// How much of a slow call was its own time.
    #[cold]
    fn examine(&mut self, ticks: u64) -> u64 {
        let waited = waited_for_core();
        let nanos = Duration::from_nanos(self.clock.delta_as_nanos(0, ticks));
        let away = waited.saturating_sub(self.waited).as_secs_f64() / nanos.as_secs_f64();
        self.waits += u64::from(waited > self.waited);
        self.waited = waited;
        let own = ticks as f64 * (1.0 - away.min(1.0));
        self.longest_own = self.longest_own.max(own as u64);
        self.clock.raw()
    }

    pub(crate) fn figures(&self, keys: Option<usize>) -> TailFigures {
        let nanos = |ticks| self.clock.delta_as_nanos(0, ticks) as f64;
        TailFigures {
            quantiles: QUANTILES.map(|(_, part)| nanos(self.quantile(part))),
            counts: self.counts(),
            longest: nanos(self.longest),
            longest_own: nanos(self.longest_own),
            waits: self.waits as f64,
            keys: keys.map(|keys| keys as f64),
        }
    }

    fn counts(&self) -> [f64; BOUNDS.len()] {
        let mut counts = [0.0; BOUNDS.len()];
        for (index, calls) in self.buckets.iter().enumerate() {
            let nanos = self.clock.delta_as_nanos(0, upper_end(index)) as f64;
            let fitting = counts.iter_mut().zip(BOUNDS).find(|(_, (_, bound))| nanos <= *bound);
            if let Some((count, _)) = fitting {
                *count += *calls as f64;
            }
        }
        counts
    }

    /// The upper end of the bucket that holds this part of the calls.
    fn quantile(&self, part: f64) -> u64 {
        let rank = (self.calls as f64 * part).ceil() as u64;
        let mut seen = 0;
        let position = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        upper_end(position.unwrap_or(0))
    }
}

/// Bucket of a length: its highest bit and the [`FINE`] bits below.
fn bucket(ticks: u64) -> usize {
    let exponent = (ticks | (1 << FINE)).ilog2() - FINE;
    (exponent << FINE) as usize + (ticks >> exponent) as usize
}

/// The longest length that falls into bucket `index`.
fn upper_end(index: usize) -> u64 {
    let exponent = (index >> FINE).saturating_sub(1);
    let mantissa = (index - (exponent << FINE)) as u64;
    (((mantissa + 1) as u128) << exponent).min(u64::MAX.into()) as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_or_above_its_lengths_by_at_most_a_sixteenth() {
        for ticks in (0..5_000).chain([1 << 20, (1 << 33) + 12_345, u64::MAX / 2]) {
            let end = upper_end(bucket(ticks));
            assert!(end >= ticks && end - ticks <= ticks / 16, "{ticks}: {end}");
            assert!(
                bucket(end) == bucket(ticks) && bucket(end + 1) == bucket(ticks) + 1,
                "{ticks}"
            );
        }
    }
}
