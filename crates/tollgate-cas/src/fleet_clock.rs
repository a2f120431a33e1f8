//! The time at which hits are decided when the clocks of the machines differ.
//!
//! If every machine decided by its own clock, a machine whose clock is ahead would starve the
//! others. Its hits move a state to a time that is still in the future for the others, and a state
//! does not go back. With `100/second burst=20` and one clock 0.3 s ahead, the others would find
//! every state 0.3 s in the future, and nearly all their hits would be denied.
//!
//! So all machines follow the clock that is furthest ahead. Each value says when it was written. A
//! machine that observes a value from its own future learns how far it is behind (its *lag*), and
//! adds that to its clock from then on. Then all decide at nearly the same time, each gets its
//! share, and the limit is used in full.
//!
//! Why that never admits more than the limit:
//!
//! - A machine decides at its own time, or at a later time that another machine has written. So no
//!   decision is made at a time that the clock furthest ahead has not reached yet.
//! - That clock advances one second per second. For each key the times of decisions only grow,
//!   because machines never move a state back in time. So within `d` seconds the fleet admits at
//!   most what the limit gives in `d` seconds, and once more what it gives in the skew, when a
//!   clock that is ahead joins.
//! - A lag is at most `max_skew`: a value from further ahead is an error, and no machine follows
//!   it.
//!
//! A lag that is no longer confirmed shrinks by 10 ms each second, because the machine that was
//! ahead may be gone, or its clock corrected. Meanwhile time runs at 99 % of its speed; it never
//! goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::shared::Figure;
use tollgate::{Clock, Timestamp};

/// A lag of `n` microseconds has shrunk to zero after `n * SHRINK_FACTOR` microseconds.
const SHRINK_FACTOR: u64 = 100;

/// The smallest lag that is logged. Networks and schedulers cause smaller ones.
const MIN_LOGGED_LAG: Duration = Duration::from_millis(100);

/// The least time between two lines in the log.
const LOG_INTERVAL_MICROS: u64 = 60_000_000;

#[derive(Debug)]
pub(crate) struct FleetClock {
    own: Arc<dyn Clock>,
    max_skew: Duration,
    /// When the lag will have shrunk to zero, by the own clock, in microseconds. The lag is the
    /// time until then divided by `SHRINK_FACTOR`.
    lag_gone_at: AtomicU64,
    /// Values that were written further ahead than `max_skew`.
    errors: AtomicU64,
    /// When the last line was logged, by the own clock, in microseconds. 0 for never.
    last_log_at: AtomicU64,
}

impl FleetClock {
    pub(crate) fn new(own: Arc<dyn Clock>, max_skew: Duration) -> FleetClock {
        let [lag_gone_at, errors, last_log_at] = [0; 3].map(AtomicU64::new);
        FleetClock { own, max_skew, lag_gone_at, errors, last_log_at }
    }

    pub(crate) fn max_skew(&self) -> Duration {
        self.max_skew
    }

    /// The time at which hits are decided.
    pub(crate) fn now(&self) -> Timestamp {
        let own = self.own.now();
        own + self.lag(own)
    }

    fn lag(&self, own: Timestamp) -> Duration {
        let gone_at = self.lag_gone_at.load(Ordering::Relaxed);
        Duration::from_micros(gone_at.saturating_sub(own.as_micros()) / SHRINK_FACTOR)
    }

    /// Takes note of a value that was written at this time.
    ///
    /// # Errors
    /// How far it is ahead, if that is more than `max_skew`.
    pub(crate) fn observe(&self, written: Timestamp) -> Result<(), Duration> {
        let own = self.own.now();
        let ahead = written.since(own);
        if ahead > self.max_skew {
            self.errors.fetch_add(1, Ordering::Relaxed);
            if self.may_log(own) {
                let max_skew = self.max_skew;
                tracing::error!(
                    ?ahead,
                    ?max_skew,
                    "a machine that writes to this store has a clock too far ahead of this machine's: this machine cannot decide the keys it writes; check the clocks"
                );
            }
            return Err(ahead);
        }
        if ahead > self.lag(own) {
            let micros = u64::try_from(ahead.as_micros()).unwrap_or(u64::MAX);
            let gone_at = own.as_micros().saturating_add(micros.saturating_mul(SHRINK_FACTOR));
            self.lag_gone_at.fetch_max(gone_at, Ordering::Relaxed);
            if ahead >= MIN_LOGGED_LAG && self.may_log(own) {
                tracing::warn!(
                    ?ahead,
                    "a machine that writes to this store has a clock ahead of this machine's: this machine follows its time"
                );
            }
        }
        Ok(())
    }

    fn may_log(&self, own: Timestamp) -> bool {
        let (last_log_at, now) = (self.last_log_at.load(Ordering::Relaxed), own.as_micros());
        let due = last_log_at == 0 || now.saturating_sub(last_log_at) >= LOG_INTERVAL_MICROS;
        due && self
            .last_log_at
            .compare_exchange(last_log_at, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        let lag = self.lag(self.own.now());
        vec![
            Figure::gauge(
                "clock_lag_microseconds",
                "How far this machine's clock is behind the clock that is furthest ahead among the machines that write to this store.",
                u64::try_from(lag.as_micros()).unwrap_or(u64::MAX),
            ),
            Figure::counter(
                "clock_errors_total",
                "States that gave an error instead of a decision because they were written further ahead than max_skew.",
                self.errors.load(Ordering::Relaxed),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

    #[test]
    fn a_lag_is_adopted_immediately_and_shrinks_slowly() {
        let own = ManualClock::new(START);
        let clock = FleetClock::new(Arc::new(own.clone()), Duration::from_secs(10));
        let ahead = Duration::from_millis(300);
        assert_eq!(clock.observe(START + ahead), Ok(()));
        assert_eq!(clock.now(), START + ahead);
        // A smaller lag than the one known changes nothing.
        assert_eq!(clock.observe(START + ahead / 2), Ok(()));
        let mut last = clock.now();
        for second in 1..=40 {
            own.advance(Duration::from_secs(1));
            assert!(clock.now() >= last, "time goes back after {second} s");
            last = clock.now();
            let lag = clock.now().since(own.now());
            assert_eq!(lag, Duration::from_millis(300_u64.saturating_sub(second * 10)));
        }
        assert_eq!(clock.now(), own.now());
    }

    #[test]
    fn a_time_too_far_ahead_is_an_error_and_is_not_followed() {
        let own = ManualClock::new(START);
        let clock = FleetClock::new(Arc::new(own), Duration::from_secs(10));
        let ahead = Duration::from_secs(11);
        assert_eq!(clock.observe(START + ahead), Err(ahead));
        assert_eq!(clock.now(), START);
        assert_eq!(clock.figures().iter().map(|figure| figure.value).collect::<Vec<_>>(), [0, 1]);
    }
}
