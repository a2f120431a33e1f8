//! The smallest and largest limits and costs, compared with the pure functions.

use tollgate::algorithm::{MAX_UNITS, Op};
use tollgate::{Algorithm, Timestamp};

use crate::beside::Beside;
use crate::ground::{DAY, Ground, HOUR, START, TICK, YEAR, before, limit};
use crate::subject::Subject;

/// Quotas and periods at their bounds, with products that nearly fill 53 or 64 bits. Also used with
/// bursts.
const ANY: [&str; 10] = [
    "1/millisecond",
    "1000000000000/millisecond",
    "1/36500 days",
    "1000000000000/36500 days",
    "999999999999/31 days",
    "999999999989/day",
    "1000000/day",
    "7/second",
    "3/1500 ms",
    "1000000007/365 days",
];

const BUCKETS: [&str; 9] = [
    "1/millisecond burst=1000000000000",
    "1000000000000/millisecond burst=1",
    "1000000000000/day burst=1000000000000",
    // Close to a thousand years.
    "1/36500 days burst=10",
    "1/day burst=365000",
    "1000000000/36500 days burst=9999999999",
    "999999999989/365 days burst=1000000000000",
    "7/31 days burst=3",
    "1/365 days burst=999",
];

fn texts() -> Vec<String> {
    let mut texts = Vec::new();
    for algorithm in Algorithm::PERIODIC {
        let name = algorithm.as_str();
        texts.extend(ANY.iter().map(|text| format!("{text} {name}")));
        if algorithm.has_burst() {
            texts.extend(BUCKETS.iter().map(|text| format!("{text} {name}")));
        }
    }
    texts
}

/// Extreme limits answer as the definition in every field: whole capacities, single units, and all
/// but one, now, a moment later and years later.
pub fn extreme_limits_equal_the_definition<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for text in texts() {
        let limit = limit(&text);
        let Some(mut key) = Beside::new(&ground, &limit, "key") else { continue };
        let capacity = key.apply(START, Op::Peek(1)).limit();
        let _ = key.apply(START, Op::Hit(capacity));
        let refused = key.apply(START + TICK, Op::Hit(1));
        let _ = key.apply(START + TICK, Op::Hit(capacity + 1));
        let _ = key.apply(START + TICK, Op::Hit(u64::MAX));
        if let Some(wait) = refused.retry_after().filter(|wait| *wait < 10 * YEAR) {
            let free = START + TICK + wait;
            let _ = key.apply(before(free, TICK), Op::Peek(1));
            let _ = key.apply(free, Op::Peek(1));
            let _ = key.apply(free, Op::Take(capacity));
        }
        for later in [DAY, YEAR, YEAR + TICK, 4 * YEAR, 12 * YEAR] {
            let now = START + later;
            let charged = key.apply(now, Op::Take(capacity - capacity / 3));
            let _ = key.apply(now + TICK, Op::Hit(1));
            let _ = key.apply(now + 2 * TICK, Op::Refund(charged.receipt()));
            let _ = key.apply(now + HOUR, Op::Peek(capacity));
        }
        let _ = key.apply(START + 12 * YEAR + DAY, Op::Set(capacity));
        let _ = key.apply(START + 12 * YEAR + 2 * DAY, Op::RefundUnits(capacity / 2));
    }
}

/// Charges, sets and refunds of any size saturate: they do not wrap, cause no error, and the key is
/// free again at the right time.
pub fn counts_saturate<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for text in texts() {
        let limit = limit(&text);
        let Some(mut key) = Beside::new(&ground, &limit, "key") else { continue };
        if !key.counts(MAX_UNITS) {
            continue;
        }
        let mut now: Timestamp = START;
        for op in [Op::Charge, Op::Set, Op::Charge] {
            for units in [u64::MAX, MAX_UNITS, MAX_UNITS - 1, 1 << 53, (1 << 53) + 1, 1] {
                let _ = key.apply(now, op(units));
                now = now + TICK;
                let _ = key.apply(now, Op::Peek(1));
            }
            let _ = key.apply(now, Op::RefundUnits(MAX_UNITS / 2));
        }
        let _ = key.apply(now, Op::Hit(u64::MAX));
        let charged = key.apply(now, Op::Charge(u64::MAX));
        let _ = key.apply(now + HOUR, Op::Refund(charged.receipt()));
        let _ = key.apply(now + HOUR, Op::RefundUnits(u64::MAX));
        let _ = key.apply(now + HOUR, Op::Take(u64::MAX));
        let _ = key.apply(now + HOUR, Op::Set(0));
        let _ = key.apply(now + HOUR, Op::Hit(1));
    }
}
