//! Tests against known mistakes of published libraries, with the numbers that showed them.

use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::{Algorithm, Limit, Timestamp};

use super::{Key, START, Subject};

const BUCKETS: [Algorithm; 3] = [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra];
const DAY: u64 = 86_400_000_000;

fn limit(text: &str, algorithm: Algorithm) -> Limit {
    format!("{text} {algorithm}").parse().expect("a valid limit")
}

fn key(text: &str, algorithm: Algorithm) -> Key {
    Key::new(&limit(text, algorithm))
}

/// Returns the number of hits of cost 1 that pass at this instant.
fn at_once(key: &mut Key, now: u64, most: u64) -> u64 {
    (0..most).take_while(|_| key.apply(now, Op::Hit(1)).allowed).count() as u64
}

/// Returns the units that pass within a span if a client always retries at the reported time. It
/// reads few fields, because a day takes a million calls.
fn greedily(text: &str, algorithm: Algorithm, span: u64) -> u64 {
    let machine = AnyMachine::new(&limit(text, algorithm));
    let (start, mut state, mut passed) = (Timestamp::from_micros(START), None, 0);
    let mut now = start;
    while now < start + Duration::from_micros(span) {
        let decision = machine.apply(&mut state, now, Op::Hit(1));
        passed += u64::from(decision.allowed());
        now = now + decision.retry_after().expect("one unit fits");
    }
    passed
}

/// A unit is refilled every 142,857 1/7 microseconds. Dropping the fraction would admit one unit
/// too many in two days, and rounding it up would lose four units a day. The bucket holds two
/// units, so a client that hits at whole microseconds loses none: it gets 2 at the start, and all
/// units that are refilled before the end of the day.
#[test]
fn fractions_of_a_microsecond_are_kept_for_a_whole_day() {
    for algorithm in BUCKETS {
        assert_eq!(greedily("7/second burst=2", algorithm, DAY), 2 + 604_799, "{algorithm}");
    }
}

/// With a burst of 1 hits at whole microseconds are 142,858 microseconds apart, because two units
/// within 142,857 microseconds would exceed the bound. If the interval is a whole number of
/// microseconds, no unit is lost.
#[test]
fn with_a_burst_of_one_at_most_one_hit_passes_per_interval() {
    let hour = 3_600_000_000;
    for algorithm in BUCKETS {
        let passed = greedily("7/second burst=1", algorithm, hour);
        assert_eq!(passed, (hour - 1) / 142_858 + 1, "{algorithm}");
        assert_eq!(greedily("8/second burst=1", algorithm, hour), 8 * 3600, "{algorithm}");
    }
}

/// governor 0.10.4 multiplied nanoseconds in 64 bits, which overflowed, and admitted only 86,496.
#[test]
fn a_burst_that_takes_centuries_to_refill_is_admitted_exactly() {
    for algorithm in BUCKETS {
        let mut bucket = key("1/day burst=300000", algorithm);
        assert_eq!(at_once(&mut bucket, START, 400_000), 300_000, "{algorithm}");
        let refused = bucket.apply(START, Op::Hit(1));
        assert_eq!((refused.retry, refused.reset), (Some(DAY), 300_000 * DAY), "{algorithm}");
        assert!(bucket.apply(START + DAY, Op::Hit(1)).allowed, "{algorithm}");
    }
}

/// throttlecrab 0.4.40 counted from `now - tolerance` and admitted 17 instead of 10.
#[test]
fn after_idle_time_at_most_the_burst_is_admitted() {
    for algorithm in BUCKETS {
        let mut bucket = key("1/second burst=10", algorithm);
        assert!(bucket.apply(START, Op::Hit(1)).allowed);
        assert_eq!(at_once(&mut bucket, START + 8_900_000, 100), 10, "{algorithm}");
    }
}

/// Hammer's log kept only one of two hits in the same microsecond.
#[test]
fn all_hits_within_one_microsecond_count() {
    for algorithm in Algorithm::PERIODIC {
        let mut five = key("5/second", algorithm);
        assert_eq!(at_once(&mut five, START, 100), 5, "{algorithm}");
        assert_eq!(five.would(START, Op::Peek(1)).used, 5, "{algorithm}");
    }
}

/// If windows are aligned to the clock and counts are rounded down, a limit of one per day admits
/// two hits around midnight.
#[test]
fn a_sliding_window_of_one_admits_one_hit_per_period() {
    for offset in [0, 1, DAY / 2, DAY - 1_000_000, DAY - 1] {
        let mut one = key("1/day", Algorithm::SlidingWindow);
        let first = START + offset;
        assert!(one.apply(first, Op::Hit(1)).allowed);
        for later in [0, 1, 1_000_000, DAY / 2, DAY - 1, DAY, DAY + 1, 2 * DAY - 1] {
            assert!(!one.apply(first + later, Op::Hit(1)).allowed, "{offset} {later}");
        }
        assert!(one.apply(first + 2 * DAY, Op::Hit(1)).allowed, "{offset}");
    }
}

/// Traefik forgot a bucket after its period and admitted the burst again. Go's x/time created
/// tokens when the clock went back and forth.
#[test]
fn a_burst_is_refilled_only_at_the_rate_of_the_limit() {
    for algorithm in BUCKETS {
        let mut bucket = key("1/second burst=100", algorithm);
        assert_eq!(at_once(&mut bucket, START, 200), 100, "{algorithm}");
        assert_eq!(at_once(&mut bucket, START + 2_200_000, 200), 2, "{algorithm}");
        for jump in [1_000_000, super::YEAR] {
            assert_eq!(at_once(&mut bucket, START - jump, 200), 0, "{algorithm}");
            assert_eq!(at_once(&mut bucket, START + 2_999_999, 200), 0, "{algorithm}");
        }
        assert_eq!(at_once(&mut bucket, START + 3_000_000, 200), 1, "{algorithm}");
    }
}

/// Five hits on a limit of 2 count as two. With `charge-denied` they count as five, as in Hammer,
/// `limits` and the INCR recipe of Redis.
#[test]
fn denied_hits_count_only_with_charge_denied() {
    for algorithm in Algorithm::PERIODIC {
        let plain: Limit = format!("2/hour {algorithm}").parse().unwrap();
        let charging = format!("2/hour {algorithm} charge-denied").parse::<Limit>();
        assert_eq!(charging.is_ok(), algorithm.can_charge_denied());
        for (limit, expected) in [(Some(plain), 2), (charging.ok(), 5)] {
            let Some(mut key) = limit.as_ref().map(Key::new) else { continue };
            for _ in 0..5 {
                key.apply(START, Op::Hit(1));
            }
            assert_eq!(key.would(START, Op::Peek(1)).used, expected, "{limit:?}");
        }
    }
}
