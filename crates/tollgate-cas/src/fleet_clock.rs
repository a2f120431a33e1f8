//! The time at which hits are decided when the clocks of the machines differ.
//!
//! If every machine decided by its own clock, one that is ahead would starve the others. Its hits
//! move a state to a time that has not come for them yet, and a state does not go back. With
//! `100/second burst=20` and one clock 0.3 s ahead, the others would find every state 0.3 s away
//! and hardly ever pass.
//!
//! So all follow the clock that is furthest ahead. Each value says when it was written. A machine
//! that reads one from its own future learns how far it is behind (its *lag*), and adds that to its
//! clock from then on. Then all decide at nearly the same time, each gets its share, and the limit
//! is used in full.
//!
//! Why that never admits more than the limit:
//!
//! - A machine decides at its own time, or later at a time that another machine has written. So no
//!   decision is made at a time that the clock furthest ahead has not reached yet.
//! - That clock runs as fast as a second. For each key the times of decisions only grow, since
//!   states guard themselves against time going back. So within `d` seconds at most `d` seconds of
//!   the limit are given, and once more what it gives in the skew, when a clock that is ahead
//!   joins.
//! - A lag is at most `max_skew`: a value from further ahead is an error, and nobody follows it.
//!
//! A lag that is no longer confirmed shrinks by 10 ms each second, because the machine that was
//! ahead may be gone, or its clock set right. Time runs at 99 % meanwhile; it does not go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::shared::Figure;
use tollgate::{Clock, Timestamp};

/// A lag of so many microseconds is gone after so many times as long.
const SHRINKS_IN: u64 = 100;

/// A lag from here on is worth a line in the log. Networks and schedulers cause smaller ones.
const WORTH_TELLING: Duration = Duration::from_millis(100);

/// Microseconds between two lines.
const TELL_EVERY: u64 = 60_000_000;

#[derive(Debug)]
pub(crate) struct FleetClock {
    own: Arc<dyn Clock>,
    max_skew: Duration,
    /// When the lag will be gone, by the own clock, in microseconds: the lag is a hundredth of the
    /// time until then.
    lag_gone_at: AtomicU64,
    /// Values that were written further ahead than `max_skew`.
    errors: AtomicU64,
    /// When the log was told last.
    told: AtomicU64,
}

impl FleetClock {
    pub(crate) fn new(own: Arc<dyn Clock>, max_skew: Duration) -> FleetClock {
        let [lag_gone_at, errors, told] = [0; 3].map(AtomicU64::new);
        FleetClock { own, max_skew, lag_gone_at, errors, told }
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
        Duration::from_micros(gone_at.saturating_sub(own.as_micros()) / SHRINKS_IN)
    }

    /// Learns from a value that was written at that time.
    ///
    /// # Errors
    /// How far it is ahead, if that is more than clocks may differ.
    pub(crate) fn read(&self, written: Timestamp) -> Result<(), Duration> {
        let own = self.own.now();
        let ahead = written.since(own);
        if ahead > self.max_skew {
            self.errors.fetch_add(1, Ordering::Relaxed);
            if self.may_tell(own) {
                let max_skew = self.max_skew;
                tracing::error!(
                    ?ahead,
                    ?max_skew,
                    "a machine whose clock is too far ahead of the clock here writes to this store: its keys cannot be decided here"
                );
            }
            return Err(ahead);
        }
        if ahead > self.lag(own) {
            let micros = u64::try_from(ahead.as_micros()).unwrap_or(u64::MAX);
            let gone_at = own.as_micros().saturating_add(micros.saturating_mul(SHRINKS_IN));
            self.lag_gone_at.fetch_max(gone_at, Ordering::Relaxed);
            if ahead >= WORTH_TELLING && self.may_tell(own) {
                tracing::warn!(
                    ?ahead,
                    "another machine that writes to this store has a clock ahead of the clock here: its time is followed"
                );
            }
        }
        Ok(())
    }

    fn may_tell(&self, own: Timestamp) -> bool {
        let (told, now) = (self.told.load(Ordering::Relaxed), own.as_micros());
        let due = told == 0 || now.saturating_sub(told) >= TELL_EVERY;
        due && self.told.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        let lag = self.lag(self.own.now());
        vec![
            Figure::gauge(
                "clock_lag_microseconds",
                "How far the clock here is behind the one furthest ahead among the machines that write to this store.",
                u64::try_from(lag.as_micros()).unwrap_or(u64::MAX),
            ),
            Figure::counter(
                "clock_errors_total",
                "States that were not decided because they were written further ahead than max_skew.",
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
    fn a_lag_is_learnt_at_once_and_shrinks_slowly() {
        let own = ManualClock::new(START);
        let clock = FleetClock::new(Arc::new(own.clone()), Duration::from_secs(10));
        let ahead = Duration::from_millis(300);
        assert_eq!(clock.read(START + ahead), Ok(()));
        assert_eq!(clock.now(), START + ahead);
        // Less is no news.
        assert_eq!(clock.read(START + ahead / 2), Ok(()));
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
        assert_eq!(clock.read(START + ahead), Err(ahead));
        assert_eq!(clock.now(), START);
        assert_eq!(clock.figures().iter().map(|figure| figure.value).collect::<Vec<_>>(), [0, 1]);
    }
}
