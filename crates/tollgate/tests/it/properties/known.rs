//! Mistakes of published libraries, each with the numbers that showed it.

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

/// The number of hits of cost 1 that pass at this instant.
fn at_once(key: &mut Key, now: u64, most: u64) -> u64 {
    (0..most).take_while(|_| key.apply(now, Op::Hit(1)).allowed).count() as u64
}

/// Units that pass within a span when a client always retries at the announced time. Reads few
/// fields, because a day is a million calls.
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

/// One unit each 142,857 and 1/7 microseconds: dropping the seventh would gain one in two days,
/// rounding it up would lose four a day. Two may wait in the bucket, so a client that comes at
/// whole microseconds loses nothing: 2 at the start and all that come back before midnight.
#[test]
fn remainders_are_carried_through_a_day() {
    for algorithm in BUCKETS {
        assert_eq!(greedily("7/second burst=2", algorithm, DAY), 2 + 604_799, "{algorithm}");
    }
}

/// With a burst of 1 nothing can wait in the bucket, and hits at whole microseconds are 142,858
/// apart: 604,797 in a day. One more within 142,857 microseconds would exceed the bound. Where the
/// interval is whole nothing is lost.
#[test]
fn a_burst_of_one_never_passes_two_within_an_interval() {
    let hour = 3_600_000_000;
    for algorithm in BUCKETS {
        let passed = greedily("7/second burst=1", algorithm, hour);
        assert_eq!(passed, (hour - 1) / 142_858 + 1, "{algorithm}");
        assert_eq!(greedily("8/second burst=1", algorithm, hour), 8 * 3600, "{algorithm}");
    }
}

/// governor 0.10.4 multiplied 64-bit nanoseconds and admitted 86,496.
#[test]
fn a_burst_of_centuries_is_admitted_to_the_last_unit() {
    for algorithm in BUCKETS {
        let mut bucket = key("1/day burst=300000", algorithm);
        assert_eq!(at_once(&mut bucket, START, 400_000), 300_000, "{algorithm}");
        let refused = bucket.apply(START, Op::Hit(1));
        assert_eq!((refused.retry, refused.reset), (Some(DAY), 300_000 * DAY), "{algorithm}");
        assert!(bucket.apply(START + DAY, Op::Hit(1)).allowed, "{algorithm}");
    }
}

/// throttlecrab 0.4.40 counted from `now - tolerance` and admitted 17.
#[test]
fn idling_never_saves_up_more_than_the_burst() {
    for algorithm in BUCKETS {
        let mut bucket = key("1/second burst=10", algorithm);
        assert!(bucket.apply(START, Op::Hit(1)).allowed);
        assert_eq!(at_once(&mut bucket, START + 8_900_000, 100), 10, "{algorithm}");
    }
}

/// Hammer's log kept one of two.
#[test]
fn hits_of_one_microsecond_all_count() {
    for algorithm in Algorithm::ALL {
        let mut five = key("5/second", algorithm);
        assert_eq!(at_once(&mut five, START, 100), 5, "{algorithm}");
        assert_eq!(five.would(START, Op::Peek(1)).used, 5, "{algorithm}");
    }
}

/// Windows on the clock and counts rounded down let one per day pass twice around midnight.
#[test]
fn sliding_window_of_one_never_passes_twice_within_its_period() {
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

/// Traefik forgot a bucket after its period and gave the burst back; x/time minted tokens when the
/// clock went back and forth.
#[test]
fn bursts_come_back_only_as_fast_as_the_rate() {
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

/// Five hits at limit 2 count as two. With the option they count as five, as in Hammer, `limits`
/// and the INCR recipe.
#[test]
fn denied_hits_count_only_where_the_limit_says_so() {
    for algorithm in Algorithm::ALL {
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
