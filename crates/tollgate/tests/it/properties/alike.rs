//! Token bucket, leaky bucket and GCRA make the same decisions.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit};

use super::{Answer, Key, START, Subject, YEAR, any_ops, config, hits_with_jumps, period, shape};
use crate::text::any_limit;

/// The operation with this key's own receipt instead of the other's.
fn with_own_receipt(op: Op, place: Option<usize>, answers: &[Answer]) -> Op {
    place.map_or(op, |place| Op::Refund(answers[place].receipt))
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn the_three_buckets_decide_alike_in_every_field(shape in shape(), timeline in any_ops()) {
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
    fn the_three_buckets_decide_alike_with_large_numbers(
        limit in any_limit().prop_filter("a bucket", |limit| limit.algorithm().has_burst()),
        asked in vec((0..5 * YEAR, any::<u64>(), 0..5_u32), 1..20),
    ) {
        let mut keys = [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra].map(|algorithm| {
            let builder = Limit::new(limit.quota(), limit.period()).burst(limit.burst());
            Key::new(&builder.algorithm(algorithm).build().unwrap())
        });
        let mut now = START;
        for (later, number, kind) in asked {
            // Either within an interval or after years.
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

    /// GCRA remembers no time of its own, so at an earlier time it owes more: it may deny what the
    /// buckets admit, never the other way. When both admit a hit they agree again as soon as the
    /// clock has caught up.
    #[test]
    fn gcra_is_the_stricter_when_the_clock_goes_back(shape in shape(), timeline in hits_with_jumps()) {
        let (gcra, bucket) = (shape.limit(Algorithm::Gcra), shape.limit(Algorithm::TokenBucket));
        let (mut key, mut latest) = (Key::new(&bucket), 0);
        for one in timeline.walk(&gcra, Key::new(&gcra)) {
            let peeked = match one.op {
                Op::Hit(cost) | Op::Peek(cost) => key.would(one.now, Op::Peek(cost)),
                _ => key.would(one.now, Op::Peek(one.answer.charged)),
            };
            prop_assert!(peeked.allowed || !one.answer.allowed, "the bucket says {:?} to {:?}", peeked, one);
            key.apply(one.now, Op::Charge(one.answer.charged));
            latest = one.now.max(latest);
            let (own, other) = (one.after.would(latest, Op::Peek(1)), key.would(latest, Op::Peek(1)));
            prop_assert_eq!(own.fields(), other.fields(), "when the clock has caught up after {:?}", one);
        }
    }
}
