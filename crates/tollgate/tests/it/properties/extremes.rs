//! Tests that no arguments cause a panic or an integer overflow: the largest quotas, bursts and
//! costs, periods from a millisecond to 100 years, and idle times of years.
//!
//! Debug builds check for overflows. In release builds an overflow would appear in the answers.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::algorithm::{MAX_UNITS, Op};
use tollgate::{Algorithm, Limit, MAX_QUOTA, Timestamp};

use super::retry::retry_is_exact;
use super::{Answer, Key, START, Seen, Subject, YEAR, config, fields, period};
use crate::text::any_limit;

/// Generates limits whose numbers are at the ends of their ranges.
fn edge_limit() -> impl Strategy<Value = Limit> {
    let number = || select(vec![1, 2, 3, MAX_QUOTA - 1, MAX_QUOTA]);
    let period = select(vec![1_000, 1_001, 999_983, 31 * 86_400_000_000, YEAR, 100 * YEAR]);
    (select(Algorithm::PERIODIC.to_vec()), number(), period, number()).prop_filter_map(
        "refused: the burst would take longer than 1,000 years",
        |(algorithm, quota, period, burst)| {
            let limit = Limit::new(quota, Duration::from_micros(period)).algorithm(algorithm);
            if algorithm.has_burst() { limit.burst(burst) } else { limit }.build().ok()
        },
    )
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![edge_limit(), any_limit()]
}

fn cost() -> impl Strategy<Value = u64> {
    let edges = vec![0, 1, 2, MAX_QUOTA, MAX_QUOTA + 1, MAX_UNITS, 1 << 63, u64::MAX - 1, u64::MAX];
    prop_oneof![3 => 0_u64..4, 2 => select(edges), 1 => any::<u64>(), 1 => 0..=MAX_QUOTA]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => cost().prop_map(Op::Hit),
        1 => cost().prop_map(Op::Peek),
        1 => cost().prop_map(Op::Take),
        1 => cost().prop_map(Op::Charge),
        1 => cost().prop_map(Op::Set),
        1 => cost().prop_map(Op::RefundUnits),
    ]
}

fn any_time() -> impl Strategy<Value = u64> {
    let end = Timestamp::MAX.as_micros();
    prop_oneof![
        4 => (0..50_u64).prop_map(|years| START + years * YEAR),
        2 => (0..3_u64).prop_map(|ticks| START + ticks),
        2 => 0..=end,
        1 => select(vec![0, 1, end - 1, end]),
    ]
}

/// The time, some 145,000 years from now, until which every wait can be represented. At later times
/// sums saturate, and only the absence of panics is guaranteed.
const LAST_EXACT_TIME: u64 = Timestamp::MAX.as_micros() - 1_001 * YEAR;

/// Checks the rules that hold for every answer with any arguments.
fn check_answer(op: Op, answer: &Answer) -> Result<(), String> {
    let sum = answer.used.checked_add(answer.remaining);
    let adds_up = sum == Some(answer.limit) || answer.remaining == 0 && answer.used > answer.limit;
    let wrong = match op {
        _ if !adds_up => "used and remaining do not add up",
        // The sliding window adds two counts, each of which saturates at the largest number.
        _ if answer.used > 2 * MAX_UNITS => "used is above the largest count",
        Op::Hit(cost) | Op::Peek(cost) if cost > answer.limit && answer.allowed => {
            "a cost above the capacity passes"
        }
        Op::Hit(cost) | Op::Peek(cost) if (cost > answer.limit) != answer.retry.is_none() => {
            "a wait is absent exactly when the cost is above the capacity"
        }
        Op::Take(_) if answer.charged > answer.limit => "a take grants more than the capacity",
        Op::Charge(_) | Op::Set(_) | Op::RefundUnits(_) if !answer.allowed => "not allowed",
        _ if answer.allowed && answer.retry != Some(0) => "allowed with a wait",
        _ => return Ok(()),
    };
    Err(format!("{wrong}: {op:?} got {answer:?}"))
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn no_extreme_arguments_cause_a_panic_or_an_overflow(
        limit in limit(), asked in vec((any_time(), op()), 1..40),
    ) {
        let mut key = Key::new(&limit);
        for (now, op) in asked {
            let answer = key.apply(now, op);
            let back = key.apply(now, Op::Refund(answer.receipt));
            key.apply(now, op);
            if now < LAST_EXACT_TIME {
                let checked = check_answer(op, &answer).and_then(|()| check_answer(Op::RefundUnits(0), &back));
                checked.map_err(|wrong| TestCaseError::fail(format!("{limit}: {wrong}")))?;
            }
        }
    }

    /// Large numbers are as exact as small ones, as long as the times can be represented.
    #[test]
    fn large_limits_are_as_exact_as_small_ones(
        limit in limit(), asked in vec((0..50 * YEAR, 0..=u64::MAX, 0..4_u32), 1..30),
    ) {
        let (mut key, mut now) = (Key::new(&limit), START);
        for (later, share, kind) in asked {
            // Half of the steps wait for a few units, the other half for up to 50 years.
            let interval = u128::from(period(&limit)) / u128::from(limit.quota());
            now += if kind % 2 == 0 { later } else { u64::try_from(interval).unwrap() * (later % 3) };
            let op = match kind {
                0 => Op::Hit(share % (limit.burst() + 2)),
                1 => Op::Take(share % (limit.burst() + 2)),
                2 => Op::Hit(limit.burst()),
                _ => Op::Charge(share % (limit.burst() + 2)),
            };
            let before = key.clone();
            let answer = key.apply(now, op);
            let seen = Seen { before, now, op, answer, after: key.clone() };
            let checked = retry_is_exact(&seen).and_then(|()| fields::remaining_is_correct(&seen));
            checked.map_err(|wrong| TestCaseError::fail(format!("{limit}: {wrong}")))?;
        }
    }

    #[test]
    fn charges_saturate_and_the_key_becomes_fresh_again(limit in limit(), rounds in 1_usize..5) {
        let mut key = Key::new(&limit);
        for _ in 0..rounds {
            let answer = key.apply(START, Op::Charge(u64::MAX));
            let in_range = (limit.burst() + 1..=MAX_UNITS).contains(&answer.used);
            prop_assert!(in_range, "{limit}: {answer:?}");
            prop_assert!(!key.would(START, Op::Hit(1)).allowed);
        }
        prop_assert_eq!(key.apply(START, Op::RefundUnits(u64::MAX)).used, 0);
        prop_assert!(key.apply(START, Op::Hit(limit.burst())).allowed);
    }
}

/// After any idle time a key admits its capacity, and no more.
#[test]
fn after_years_of_idle_time_a_key_admits_exactly_its_capacity() {
    for algorithm in Algorithm::PERIODIC {
        for (quota, micros) in [(1, 1_000), (MAX_QUOTA, 1_000), (7, 100 * YEAR), (MAX_QUOTA, YEAR)]
        {
            let limit = Limit::new(quota, Duration::from_micros(micros)).algorithm(algorithm);
            let limit = limit.build().unwrap();
            let mut key = Key::new(&limit);
            for years in [0, 300, 2_000, 10_000] {
                let now = START + years * YEAR;
                assert_eq!(key.apply(now, Op::Take(u64::MAX)).charged, quota, "{limit} {years}");
                assert!(!key.apply(now, Op::Hit(1)).allowed, "{limit} {years}");
            }
        }
    }
}

#[test]
fn operations_near_the_largest_timestamp_do_not_panic() {
    for algorithm in Algorithm::PERIODIC {
        let limit = Limit::new(3, Duration::from_micros(100 * YEAR)).algorithm(algorithm);
        let mut key = Key::new(&limit.build().unwrap());
        for before in [3, 2, 1, 0, 0, 0, 0] {
            let now = Timestamp::MAX.as_micros() - before;
            for op in [Op::Hit(1), Op::Hit(u64::MAX), Op::Charge(u64::MAX), Op::Set(1)] {
                let receipt = key.apply(now, op).receipt;
                key.apply(now, Op::Refund(receipt));
            }
        }
    }
}
