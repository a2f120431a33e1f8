//! Tests of short and long periods, and of clocks that jump.

use std::time::Duration;

use tollgate::{Algorithm, Key, Limiter, ManualClock, Timestamp};

use super::{START, Subject, admitted, limiters, store};

const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

const PERIODS: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(100),
    Duration::from_millis(1_500),
    Duration::from_secs(31 * 86_400),
    YEAR,
];

const JUMPS: [Duration; 4] = [Duration::from_millis(1), Duration::from_secs(1), DAY, YEAR];

const QUOTA: usize = 5;

/// Runs `check` for every algorithm and period, each on a separate store.
fn for_each_limit<S: Subject>(check: impl Fn(&Limiter<S>, &ManualClock)) {
    for_each_limit_and_store::<S>(|_, limited, clock| check(limited, clock));
}

fn for_each_limit_and_store<S: Subject>(check: impl Fn(&S, &Limiter<S>, &ManualClock)) {
    for period in PERIODS {
        let (store, _) = store::<S>();
        for n in 0..limiters(&store, QUOTA as u64, period).len() {
            let (store, clock) = super::store::<S>();
            check(&store, &limiters(&store, QUOTA as u64, period)[n], &clock);
        }
    }
}

fn back(from: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_micros(from.as_micros() - u64::try_from(by.as_micros()).expect("a year fits"))
}

/// Returns the wait for one unit of a key without remaining units.
fn wait_of<S: Subject>(limited: &Limiter<S>, key: impl Key) -> Duration {
    limited.peek(key).retry_after().expect("one fits")
}

pub(super) fn at_most_the_burst_passes_at_one_instant<S: Subject>() {
    for_each_limit::<S>(|limited, _| {
        assert_eq!(admitted(limited, "one by one", 10), QUOTA, "{}", limited.limits()[0]);
        assert_eq!(limited.take("taken", 10).charged(), QUOTA as u64, "{}", limited.limits()[0]);
        assert!(!limited.hit_n("at once", 6).allowed(), "{}", limited.limits()[0]);
        assert!(limited.hit_n("at once", 5).allowed(), "{}", limited.limits()[0]);
    });
}

pub(super) fn retry_after_is_exact<S: Subject>() {
    for_each_limit::<S>(|limited, clock| {
        for cost in [1, 2, 5] {
            clock.set(START);
            let key = ("key", cost);
            admitted(limited, key, QUOTA);
            let refused = limited.hit_n(key, cost);
            let wait = refused.retry_after().expect("a cost that fits");
            assert!(!refused.allowed() && wait > Duration::ZERO, "{}", limited.limits()[0]);
            assert!(wait <= 2 * limited.limits()[0].period(), "{}: {wait:?}", limited.limits()[0]);
            clock.set(back(START + wait, Duration::from_micros(1)));
            assert!(
                !limited.peek_n(key, cost).allowed(),
                "{}: one microsecond too early",
                limited.limits()[0]
            );
            clock.set(START + wait);
            assert!(
                limited.hit_n(key, cost).allowed(),
                "{}: when the wait is over",
                limited.limits()[0]
            );
        }
    });
}

pub(super) fn a_jump_back_admits_no_hit_and_makes_no_wait_longer_than_the_jump<S: Subject>() {
    for_each_limit::<S>(|limited, clock| {
        for (n, jump) in JUMPS.into_iter().enumerate() {
            let limit = &limited.limits()[0];
            // The key is used up. A jump back must not admit further hits, nor must the way forward
            // to the time before the jump.
            clock.set(START);
            assert_eq!(admitted(limited, ("all", n), 10), QUOTA, "{limit}");
            let own_wait = wait_of(limited, ("all", n));
            let before = back(START, jump);
            clock.set(before);
            assert_eq!(admitted(limited, ("all", n), 10), 0, "{limit} back by {jump:?}");
            let wait = wait_of(limited, ("all", n));
            assert!(
                wait <= jump + own_wait,
                "{limit}: waits {wait:?} after a jump back by {jump:?}"
            );
            clock.set(START);
            assert_eq!(admitted(limited, ("all", n), 10), 0, "{limit} back and forth by {jump:?}");
            // The hits above have extended an elastic window until this time.
            clock.set(START + own_wait);
            assert!(
                limited.hit(("all", n)).allowed(),
                "{limit}: still denied after a jump by {jump:?}"
            );

            // A part of the limit is used, so only the rest passes.
            clock.set(START);
            assert!(limited.hit_n(("some", n), 2).allowed(), "{limit}");
            clock.set(before);
            let more = admitted(limited, ("some", n), 10);
            assert!(more <= QUOTA - 2, "{limit} back by {jump:?}: {more} more");
            clock.set(START);
            let rest = admitted(limited, ("some", n), 10);
            assert!(more + rest <= QUOTA - 2, "{limit} back by {jump:?}: {more} and {rest} more");
        }
    });
}

pub(super) fn a_jump_forward_and_back_makes_no_wait_longer_than_the_jump<S: Subject>() {
    for_each_limit::<S>(|limited, clock| {
        for (n, jump) in JUMPS.into_iter().enumerate() {
            let limit = &limited.limits()[0];
            clock.set(START + jump);
            assert_eq!(admitted(limited, n, 10), QUOTA, "{limit}");
            let own_wait = wait_of(limited, n);
            clock.set(START);
            assert_eq!(admitted(limited, n, 10), 0, "{limit} ahead by {jump:?} and back");
            let wait = wait_of(limited, n);
            assert!(
                wait <= jump + own_wait,
                "{limit}: waits {wait:?} after a jump ahead by {jump:?}"
            );
            clock.set(START + jump + own_wait);
            assert!(limited.hit(n).allowed(), "{limit}: still denied after a jump by {jump:?}");
        }
    });
}

/// States that were fresh while the clock was ahead may have been forgotten. New states start at
/// the time at which the forgotten states became fresh, so no key is denied for longer.
pub(super) fn a_clean_before_a_jump_back_makes_no_wait_longer_than_the_jump<S: Subject>() {
    for jump in JUMPS {
        for_each_limit_and_store::<S>(|store, limited, clock| {
            let limit = &limited.limits()[0];
            assert_eq!(admitted(limited, "key", 10), QUOTA, "{limit}");
            clock.advance(jump);
            let gone = store.sweep();
            clock.set(START);
            let more = admitted(limited, "key", 10);
            assert!(more <= gone * QUOTA, "{limit} ahead by {jump:?}: {more} more");
            let wait = wait_of(limited, "key");
            let slides = limit.algorithm() == Algorithm::SlidingWindow;
            let longest = limit.period() * if slides { 2 } else { 1 };
            assert!(
                wait <= jump + longest,
                "{limit}: waits {wait:?} after a jump ahead by {jump:?}"
            );
            clock.advance(wait);
            assert!(limited.hit("key").allowed(), "{limit}: still denied after a jump by {jump:?}");
        });
    }
}
