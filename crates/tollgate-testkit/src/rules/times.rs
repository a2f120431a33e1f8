//! Short and long periods, and clocks that jump.

use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::{Algorithm, Key, Timestamp};

use crate::ground::{DAY, Ground, Limited, START, TICK, YEAR, before, limit};
use crate::subject::Subject;

const PERIODS: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(100),
    Duration::from_millis(1_500),
    Duration::from_secs(31 * 86_400),
    YEAR,
];

const JUMPS: [Duration; 3] = [Duration::from_secs(1), DAY, YEAR];

const QUOTA: u64 = 5;

fn for_each_limit<S: Subject>(subject: &S, check: impl Fn(&Limited<'_, S>)) {
    let ground = Ground::new(subject);
    for period in PERIODS {
        ground.of_all(QUOTA, period).iter().for_each(&check);
    }
}

/// The wait for one more unit of a drained key at that time.
fn wait_at<S: Subject>(limited: &Limited<'_, S>, now: Timestamp, key: impl Key) -> Duration {
    limited.peek(now, key).retry_after().expect("one fits")
}

/// Periods of 1 ms, 100 ms, 1.5 s, 31 days and a year: exactly the burst passes at one instant.
pub fn no_more_than_the_burst_at_one_instant<S: Subject>(subject: &S) {
    for_each_limit(subject, |limited| {
        let limit = limited.limit();
        assert_eq!(limited.admitted(START, "one by one", 8), QUOTA, "{limit}");
        let taken = limited.apply(START, "taken", Op::Take(10)).charged();
        assert_eq!(taken, QUOTA, "{limit}");
        assert!(!limited.hit_n(START, "at once", QUOTA + 1).allowed(), "{limit}");
        assert!(limited.hit_n(START, "at once", QUOTA).allowed(), "{limit}");
    });
}

/// A hit is denied one microsecond before `retry_after` and admitted at it, for any cost and
/// period.
pub fn retry_after_is_exact<S: Subject>(subject: &S) {
    for_each_limit(subject, |limited| {
        let limit = limited.limit();
        for cost in [1, 2, QUOTA] {
            let key = ("key", cost);
            assert_eq!(limited.admitted(START, key, QUOTA), QUOTA, "{limit}");
            let refused = limited.hit_n(START, key, cost);
            let wait = refused.retry_after().expect("a cost that fits");
            assert!(!refused.allowed() && wait > Duration::ZERO, "{limit}");
            assert!(wait <= 2 * limit.period(), "{limit}: {wait:?}");
            let early = limited.apply(before(START + wait, TICK), key, Op::Peek(cost));
            // This hit would push an elastic window once more.
            let pushed = limit.algorithm() == Algorithm::ElasticWindow;
            let left = if pushed { limit.period() } else { TICK };
            assert_eq!(
                (early.allowed(), early.retry_after()),
                (false, Some(left)),
                "{limit} early"
            );
            assert!(limited.hit_n(START + wait, key, cost).allowed(), "{limit} in time");
        }
        assert_eq!(limited.hit_n(START, "key", QUOTA + 1).retry_after(), None, "{limit}: never");
    });
}

/// A clock that jumps back by a second, a day, a year: nothing more is admitted, at once or on the
/// way forward, and no key is locked for longer than the jump and the limit's own wait.
pub fn a_jump_back_admits_nothing_and_locks_no_longer<S: Subject>(subject: &S) {
    for_each_limit(subject, |limited| {
        for (n, jump) in JUMPS.into_iter().enumerate() {
            let limit = limited.limit();
            let (all, some) = (("all", n), ("some", n));
            assert_eq!(limited.admitted(START, all, QUOTA + 1), QUOTA, "{limit}");
            let own_wait = wait_at(limited, START, all);
            let earlier = before(START, jump);
            assert_eq!(limited.admitted(earlier, all, 2), 0, "{limit} back by {jump:?}");
            let wait = wait_at(limited, earlier, all);
            assert!(wait <= jump + own_wait, "{limit} back by {jump:?} waits {wait:?}");
            assert_eq!(limited.admitted(START, all, 2), 0, "{limit} back and forth by {jump:?}");
            // The hits above have pushed an elastic window to here.
            let free = START + own_wait;
            assert!(limited.hit(free, all).allowed(), "{limit} locked after {jump:?}");

            // Part of the limit was taken: only the rest passes.
            assert!(limited.hit_n(START, some, 2).allowed(), "{limit}");
            let more = limited.admitted(earlier, some, QUOTA);
            assert!(more <= QUOTA - 2, "{limit} back by {jump:?}: {more} more");
            let rest = limited.admitted(START, some, QUOTA);
            assert!(more + rest <= QUOTA - 2, "{limit} back by {jump:?}: {more} and {rest} more");
        }
    });
}

/// A clock that was ahead by a second, a day, a year and comes back: the same rules.
pub fn a_jump_forward_and_back_locks_no_longer<S: Subject>(subject: &S) {
    for_each_limit(subject, |limited| {
        for (n, jump) in JUMPS.into_iter().enumerate() {
            let limit = limited.limit();
            let ahead = START + jump;
            assert_eq!(limited.admitted(ahead, n, QUOTA + 1), QUOTA, "{limit}");
            let own_wait = wait_at(limited, ahead, n);
            assert_eq!(limited.admitted(START, n, 2), 0, "{limit} ahead by {jump:?} and back");
            let wait = wait_at(limited, START, n);
            assert!(wait <= jump + own_wait, "{limit} ahead by {jump:?} waits {wait:?}");
            assert!(limited.hit(ahead + own_wait, n).allowed(), "{limit} locked after {jump:?}");
        }
    });
}

/// Without a time of the caller, the store's own clock decides for all handles.
pub fn all_handles_go_by_the_clock_of_the_store<S: Subject>(subject: &S) {
    const YEARLY: &str = "1/365 days fixed-window-per-key";
    let ground = Ground::new(subject);
    let Some(one) = ground.limited(&limit(YEARLY)) else { return };
    let other = ground.again().limited(one.limit()).expect("held a moment ago");
    let first = one.must(one.inner.hit("key"));
    let second = other.must(other.inner.hit("key"));
    assert_eq!((first.allowed(), second.allowed()), (true, false));
    let between = second.now().since(first.now()) + first.now().since(second.now());
    assert!(between < Duration::from_secs(60), "two handles are {between:?} apart");
    let wait = second.retry_after().expect("one fits");
    assert!(wait <= YEAR && wait > YEAR - Duration::from_secs(60), "{wait:?}");
}
