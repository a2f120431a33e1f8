//! The results of a load: counts and response times.

use std::fmt;
use std::time::Duration;
use tollgate_report::grouped;

use super::failure::{Failure, Failures};
use super::wire::Outcome;

/// Sixteen buckets per power of two of a microsecond, so that a printed time is at most 6 % too
/// high.
const STEPS: u32 = 4;
const BUCKETS: usize = 40 << STEPS;

/// The counts of one connection, or of all.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    allowed: u64,
    denied: u64,
    errors: u64,
    /// Requests without a response; they are also counted as errors.
    unanswered: u64,
    failures: Failures,
    buckets: Vec<u64>,
    longest: u64,
    /// The duration of the load.
    span: Duration,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            allowed: 0,
            denied: 0,
            errors: 0,
            unanswered: 0,
            failures: Failures::default(),
            buckets: vec![0; BUCKETS],
            longest: 0,
            span: Duration::ZERO,
        }
    }
}

impl Tally {
    /// Empty counts for a load of this duration.
    pub(super) fn over(span: Duration) -> Tally {
        Tally { span, ..Tally::default() }
    }

    pub(super) fn saw(&mut self, outcome: Outcome, micros: u64) {
        match outcome {
            Outcome::Allowed => self.allowed += 1,
            Outcome::Denied => self.denied += 1,
            Outcome::Error(failure) => {
                self.errors += 1;
                self.failures.add(failure, 1);
            }
        }
        self.buckets[bucket(micros).min(BUCKETS - 1)] += 1;
        self.longest = self.longest.max(micros);
    }

    /// Counts requests without a response.
    pub(super) fn fail(&mut self, failure: Failure, requests: u64) {
        self.errors += requests;
        self.unanswered += requests;
        self.failures.add(failure, requests);
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.failures.merge(&other.failures);
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += other;
        }
        self.longest = self.longest.max(other.longest);
    }

    /// The number of requests, answered or not.
    pub(super) fn requests(&self) -> u64 {
        self.allowed + self.denied + self.errors
    }

    pub(super) fn answers(&self) -> u64 {
        self.requests() - self.unanswered
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    pub(super) fn per_second(&self) -> u64 {
        let micros = u64::try_from(self.span.as_micros()).unwrap_or(u64::MAX).max(1);
        let per_second = u128::from(self.answers()) * 1_000_000 / u128::from(micros);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }

    /// The time in microseconds that this many of ten thousand responses did not exceed.
    pub(super) fn quantile(&self, of_ten_thousand: u64) -> u64 {
        let rank = (self.answers() * of_ten_thousand).div_ceil(10_000);
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank && *count > 0 {
                return highest(index).min(self.longest);
            }
        }
        self.longest
    }

    pub(super) fn json(&self) -> String {
        let q = |of| self.quantile(of);
        serde_json::json!({
            "answers": self.answers(), "allowed": self.allowed, "denied": self.denied, "errors": self.errors,
            "errors_by_kind": self.failures.json(),
            "seconds": self.span.as_secs_f64(), "per_second": self.per_second(),
            "latency_us": {"p50": q(5_000), "p90": q(9_000), "p99": q(9_900), "p99.9": q(9_990), "max": self.longest},
        })
        .to_string()
    }
}

/// The bucket of a response time.
fn bucket(micros: u64) -> usize {
    let (step, most) = (1_u64 << STEPS, u64::from(STEPS));
    if micros < step {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2()) - most;
    ((power + 1) * step + (micros >> power) - step) as usize
}

/// The longest response time in a bucket.
fn highest(bucket: usize) -> u64 {
    let (bucket, step) = (bucket as u64, 1_u64 << STEPS);
    if bucket < step {
        return bucket;
    }
    let power = bucket / step - 1;
    ((bucket % step + step + 1) << power) - 1
}

/// The width of the longest bar.
const BAR: u64 = 40;

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { allowed, denied, errors, .. } = self;
        writeln!(
            f,
            "{} answers in {:.1?}: {} per second",
            grouped(self.answers()),
            self.span,
            grouped(self.per_second())
        )?;
        writeln!(
            f,
            "{} allowed, {} denied, {} errors",
            grouped(*allowed),
            grouped(*denied),
            grouped(*errors)
        )?;
        writeln!(f, "{}", self.failures)?;
        if self.answers() == 0 {
            return Ok(());
        }
        for (name, of) in [("p50", 5_000), ("p90", 9_000), ("p99", 9_900), ("p99.9", 9_990)] {
            writeln!(f, "  {name:<6}{:>10}", spoken(self.quantile(of)))?;
        }
        writeln!(f, "  {:<6}{:>10}\n", "max", spoken(self.longest))?;
        // One line per power of two.
        let powers: Vec<u64> =
            self.buckets.chunks(1 << STEPS).map(|chunk| chunk.iter().sum()).collect();
        let most = powers.iter().copied().max().unwrap_or(0).max(1);
        let first = powers.iter().position(|count| *count > 0).unwrap_or(0);
        let last = powers.iter().rposition(|count| *count > 0).unwrap_or(0);
        for (index, count) in powers.iter().enumerate().take(last + 1).skip(first) {
            let upto = highest((index << STEPS) + (1 << STEPS) - 1) + 1;
            let bar = "#".repeat(usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0));
            writeln!(f, "  < {:>8} {:>12} {bar}", spoken(upto), grouped(*count))?;
        }
        Ok(())
    }
}

/// A response time with its unit.
pub(super) fn spoken(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{}.{:02} ms", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_contains_its_range() {
        for micros in (0..5_000).chain([65_535, 65_536, 1 << 30]) {
            let most = highest(bucket(micros));
            assert!(most >= micros && most - micros <= micros / 16, "{micros} {most}");
        }
    }

    #[test]
    fn quantiles_are_found() {
        let mut tally = Tally::default();
        (1..=100).for_each(|micros| tally.saw(Outcome::Allowed, micros * 10));
        assert!((500..=540).contains(&tally.quantile(5_000)), "{}", tally.quantile(5_000));
        assert_eq!(tally.quantile(10_000), 1_000);
        assert_eq!((grouped(1_234_567), spoken(1_500)), ("1,234,567".into(), "1.50 ms".into()));
    }
}
