//! Tests that token bucket, leaky bucket and GCRA make the same decisions.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit};

use super::{Answer, Key, START, Subject, YEAR, any_ops, config, hits_with_jumps, period, shape};
use crate::text::any_limit;

/// Replaces the receipt in a refund by the one that this key returned at the same place.
fn with_own_receipt(op: Op, place: Option<usize>, answers: &[Answer]) -> Op {
    place.map_or(op, |place| Op::Refund(answers[place].receipt))
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn the_three_buckets_have_equal_answers_in_every_field(shape in shape(), timeline in any_ops()) {
        let gcra = shape.limit(Algorithm::Gcra);
        let seen = timeline.walk(&gcra, Key::new(&gcra));
        for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
            let (mut key, mut answers) = (Key::new(&shape.limit(algorithm)), Vec::new());
            for (index, one) in seen.iter().enumerate() {
                let place = match one.op {
                    Op::Refund(receipt) => {
                        seen[..index].iter().position(|earlier| earlier.answer.receipt == receipt)
                    }
                    _ => None,
                };
                let answer = key.apply(one.now, with_own_receipt(one.op, place, &answers));
                prop_assert_eq!(answer.fields(), one.answer.fields(), "{} after {:?}", algorithm, one);
                answers.push(answer);
            }
        }
    }

    #[test]
    fn the_three_buckets_have_equal_answers_with_large_numbers(
        limit in any_limit().prop_filter("a bucket", |limit| limit.algorithm().has_burst()),
        asked in vec((0..5 * YEAR, any::<u64>(), 0..5_u32), 1..20),
    ) {
        let mut keys = [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra].map(|algorithm| {
            let builder = Limit::new(limit.quota(), limit.period()).burst(limit.burst());
            Key::new(&builder.algorithm(algorithm).build().unwrap())
        });
        let mut now = START;
        for (later, number, kind) in asked {
            // The next call comes within an interval or after years.
            now += if kind % 2 == 0 { later } else { later % (period(&limit) / limit.quota() + 2) };
            let units = number % (limit.burst() + 2);
            let op = match kind {
                0 | 1 => Op::Hit(units),
                2 => Op::Take(units),
                3 => Op::Charge(units),
                _ => Op::RefundUnits(units),
            };
            let answers = keys.each_mut().map(|key| key.apply(now, op).fields());
            prop_assert!(answers[0] == answers[1] && answers[1] == answers[2], "{op:?} {answers:#?}");
        }
    }

    /// GCRA does not remember the time of its last change, so at an earlier time more of its units
    /// are in use. So it may deny a hit that the buckets admit, but never the reverse. After both
    /// have admitted the same hits, they are equal again when the clock has returned to the latest
    /// time.
    #[test]
    fn gcra_is_at_least_as_strict_as_a_bucket_when_the_clock_goes_back(shape in shape(), timeline in hits_with_jumps()) {
        let (gcra, bucket) = (shape.limit(Algorithm::Gcra), shape.limit(Algorithm::TokenBucket));
        let (mut key, mut latest) = (Key::new(&bucket), 0);
        for one in timeline.walk(&gcra, Key::new(&gcra)) {
            let peeked = match one.op {
                Op::Hit(cost) | Op::Peek(cost) => key.would(one.now, Op::Peek(cost)),
                _ => key.would(one.now, Op::Peek(one.answer.charged)),
            };
            prop_assert!(peeked.allowed || !one.answer.allowed, "the bucket answers {:?} after {:?}", peeked, one);
            key.apply(one.now, Op::Charge(one.answer.charged));
            latest = one.now.max(latest);
            let (own, other) = (one.after.would(latest, Op::Peek(1)), key.would(latest, Op::Peek(1)));
            prop_assert_eq!(own.fields(), other.fields(), "when the clock has caught up after {:?}", one);
        }
    }
}
