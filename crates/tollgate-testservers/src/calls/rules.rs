//! Limiters with every rule for failures.

use tollgate::shared::{OnFailure, Share, SharedLimiter, SharedStore, Stats};
use tollgate::{Decision, Error, Source};

use super::{fails_by_the_store, in_time, stats};

/// Limiters of one limit with each rule for failures.
#[derive(Debug)]
pub struct Rules<S: SharedStore> {
    store: S,
    /// The limiter that reports the error.
    pub error: SharedLimiter<S>,
    open: SharedLimiter<S>,
    closed: SharedLimiter<S>,
    local: SharedLimiter<S>,
}

/// The quota of the limit, and the share of it that a local limiter has.
const LIMIT: &str = "8/365 days";
const SHARE: (u32, usize) = (4, 2);

impl<S: SharedStore> Rules<S> {
    /// Makes the limiters on a store.
    ///
    /// # Panics
    /// When the store cannot hold the limit.
    pub fn on(store: &S) -> Rules<S> {
        let limiter = |on_failure| {
            let limiter = SharedLimiter::new(store, "", LIMIT);
            let limiter = limiter.and_then(|limiter| limiter.on_failure(on_failure));
            limiter.unwrap_or_else(|error| panic!("{error}"))
        };
        let share = Share::one_of(SHARE.0).unwrap_or_else(|error| panic!("{error}"));
        Rules {
            store: store.clone(),
            error: limiter(OnFailure::Error),
            open: limiter(OnFailure::Open),
            closed: limiter(OnFailure::Closed),
            local: limiter(OnFailure::Local(share)),
        }
    }

    /// Checks every rule while the store cannot decide: the answers, their sources, and the
    /// counters. The key must be new to this process.
    ///
    /// # Panics
    /// When a rule does not hold.
    pub async fn hold_without_the_store(&self, key: &str) {
        let before = stats(&self.store);
        let decided = |result: Result<Decision, Error>| {
            result.unwrap_or_else(|error| panic!("an error instead of the rule: {error}"))
        };
        for round in 0..6 {
            fails_by_the_store(in_time(self.error.hit(key)).await);
            let open = decided(in_time(self.open.hit(key)).await);
            assert_eq!((open.allowed(), open.source()), (true, Source::FailOpen));
            let closed = decided(in_time(self.closed.hit(key)).await);
            assert_eq!((closed.allowed(), closed.source()), (false, Source::FailClosed));
            let local = decided(in_time(self.local.hit(key)).await);
            assert_eq!((local.allowed(), local.source()), (round < SHARE.1, Source::Fallback));
        }
        let after = stats(&self.store);
        let more = |count: fn(&Stats) -> u64| count(&after) - count(&before);
        assert!(more(|stats| stats.failed_open) >= 6, "{after:?}");
        assert!(more(|stats| stats.failed_closed) >= 6, "{after:?}");
        assert!(more(|stats| stats.fallback) >= 6, "{after:?}");
        let failed = more(|stats| {
            stats.unavailable + stats.lost + stats.refused + stats.skipped + stats.shed
        });
        assert!(failed >= 24, "{after:?}");
    }
}
