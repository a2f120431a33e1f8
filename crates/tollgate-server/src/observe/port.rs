//! Statistics of a port.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts of one port.
#[derive(Debug, Default)]
pub struct PortStats {
    opened: AtomicU64,
    closed: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
    /// Seconds since the Unix epoch; 0 without a certificate.
    certificate_expiry: AtomicU64,
    /// Response times.
    pub spans: Spans,
}

/// A histogram of response times, with a bucket per power of two of a microsecond.
#[derive(Debug, Default)]
pub struct Spans {
    buckets: [AtomicU64; Spans::BUCKETS],
    micros: AtomicU64,
}

impl PortStats {
    /// Counts an accepted connection.
    pub fn open(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a closed connection.
    pub fn close(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rejected connection (a bound was reached, or no certificate was presented) or a
    /// request without a valid token.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an invalid request.
    pub fn wrong(&self) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets when the certificate of the port expires, in seconds since the Unix epoch.
    pub fn set_certificate_expiry(&self, expiry: Option<u64>) {
        self.certificate_expiry.store(expiry.unwrap_or(0), Ordering::Relaxed);
    }

    /// When the certificate of the port expires, in seconds since the Unix epoch.
    #[must_use]
    pub fn certificate_expiry(&self) -> Option<u64> {
        Some(self.certificate_expiry.load(Ordering::Relaxed)).filter(|expiry| *expiry > 0)
    }

    /// The numbers of accepted, open and rejected connections, and of invalid requests.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // `closed` is loaded first: a connection that closes between the two loads must not give a
        // negative number.
        let closed = load(&self.closed);
        let opened = load(&self.opened);
        (opened, opened.saturating_sub(closed), load(&self.refused), load(&self.wrong))
    }
}

impl Spans {
    /// The last bucket is for everything longer than half a second.
    pub const BUCKETS: usize = 21;

    /// Counts one response time.
    pub fn saw(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let bucket =
            (64 - micros.saturating_sub(1).leading_zeros() as usize).min(Spans::BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The count of each bucket.
    #[must_use]
    pub fn buckets(&self) -> [u64; Spans::BUCKETS] {
        self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// The upper end of each bucket in microseconds with its count, and the sum of all times in
    /// microseconds.
    #[must_use]
    pub fn counts(&self) -> (Vec<(u64, u64)>, u64) {
        let bucket = |(index, count): (usize, &AtomicU64)| {
            let most = if index + 1 == Spans::BUCKETS { u64::MAX } else { 1 << index };
            (most, count.load(Ordering::Relaxed))
        };
        let buckets = self.buckets.iter().enumerate().map(bucket).collect();
        (buckets, self.micros.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_counted_in_the_bucket_that_holds_it() {
        let spans = Spans::default();
        for micros in [0, 1, 2, 3, 4, 1_000_000] {
            spans.saw(Duration::from_micros(micros));
        }
        let (buckets, sum) = spans.counts();
        assert_eq!(&buckets[..4], [(1, 2), (2, 1), (4, 2), (8, 0)]);
        assert_eq!((buckets[20], sum), ((u64::MAX, 1), 1_000_010));
    }
}
