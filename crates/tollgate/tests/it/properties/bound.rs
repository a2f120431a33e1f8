//! Tests that no algorithm admits more than its stated bound in any span, or more than the capacity
//! at one instant.

use proptest::prelude::*;
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit};

use super::{Key, Seen, Subject, config, hits, hits_with_jumps, period, shape};

/// Admitted units and their time.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: u64,
    units: u64,
}

/// Returns the admitted hits and takes. A hit at an earlier time than a previous one is counted at
/// the time of the previous one, because real time has not gone back.
fn admitted<S>(seen: &[Seen<S>]) -> Vec<Admitted> {
    let mut latest = 0;
    let passed = seen.iter().filter(|seen| seen.answer.allowed && seen.answer.charged > 0);
    passed
        .map(|seen| {
            latest = seen.now.max(latest);
            Admitted { at: latest, units: seen.answer.charged }
        })
        .collect()
}

/// Returns the largest number of units that may pass in `d` microseconds, including hits at both
/// ends. It is the bound of a half-open span slightly longer than `d`, for which `ceil` of the
/// number of periods is `floor(d/p) + 1`.
fn most(limit: &Limit, d: u64) -> Option<u64> {
    let (n, p) = (limit.quota(), period(limit));
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::FixedWindowPerKey => Some(n * (d / p + 2)),
        Algorithm::MovingWindow => Some(n * (d / p + 1)),
        Algorithm::SlidingWindow if d < p => Some(2 * n - 1),
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
            Some(limit.burst() + d * n / p)
        }
        // The sliding window has a bound only for one period. The elastic window is tested
        // separately below.
        _ => None,
    }
}

/// Checks that no span between two admitted hits contains more units than the bound.
pub(crate) fn at_most_the_bound_in_any_span<S>(
    limit: &Limit,
    seen: &[Seen<S>],
) -> Result<(), String> {
    let admitted = admitted(seen);
    for (index, first) in admitted.iter().enumerate() {
        let mut units = 0;
        for last in &admitted[index..] {
            units += last.units;
            let d = last.at - first.at;
            if let Some(most) = most(limit, d).filter(|most| units > *most) {
                return Err(format!("{units} units within {d} us, at most {most}: {admitted:?}"));
            }
        }
    }
    Ok(())
}

/// Checks that no more than the capacity is admitted at one instant.
pub(crate) fn at_most_the_capacity_at_one_instant<S>(
    capacity: u64,
    seen: &[Seen<S>],
) -> Result<(), String> {
    let admitted = admitted(seen);
    for first in &admitted {
        let at_once: u64 = admitted.iter().filter(|hit| hit.at == first.at).map(|h| h.units).sum();
        if at_once > capacity {
            return Err(format!("{at_once} units at {}: {admitted:?}", first.at));
        }
    }
    Ok(())
}

/// Checks that an elastic window admits at most the quota until there was no attempt for a period.
fn at_most_the_quota_without_a_pause<S: Subject>(
    limit: &Limit,
    seen: &[Seen<S>],
) -> Result<(), String> {
    let (mut latest, mut units) = (0, 0);
    for seen in seen.iter().filter(|seen| seen.before != seen.after) {
        if seen.now >= latest + period(limit) {
            units = 0;
        }
        latest = seen.now.max(latest);
        units += if seen.answer.allowed { seen.answer.charged } else { 0 };
        if units > limit.quota() {
            return Err(seen.wrong(format!("{units} units without a period between two attempts")));
        }
    }
    Ok(())
}

fn all_bounds(limit: &Limit, seen: &[Seen<Key>]) -> Result<(), String> {
    at_most_the_bound_in_any_span(limit, seen)?;
    at_most_the_capacity_at_one_instant(limit.burst(), seen)?;
    match limit.algorithm() {
        Algorithm::ElasticWindow => at_most_the_quota_without_a_pause(limit, seen),
        _ => Ok(()),
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn at_most_the_bound_is_admitted_in_any_span(shape in shape(), timeline in hits()) {
        shape.every_limit(|limit| all_bounds(limit, &timeline.walk(limit, Key::new(limit))))?;
    }

    #[test]
    fn at_most_the_bound_is_admitted_when_the_clock_goes_back(
        shape in shape(), timeline in hits_with_jumps(),
    ) {
        shape.every_limit(|limit| all_bounds(limit, &timeline.walk(limit, Key::new(limit))))?;
    }

    /// The greediest client retries at each reported time, and one microsecond earlier.
    #[test]
    fn at_most_the_bound_is_admitted_for_the_greediest_client(shape in shape(), big in 1_u64..=20) {
        shape.every_limit(|limit| {
            let (mut key, mut seen, mut now) = (Key::new(limit), Vec::new(), super::START);
            for round in 0..40_u64 {
                let op = Op::Hit(if round % 5 == 4 { big.min(limit.burst()) } else { 1 });
                let before = key.clone();
                let answer = key.apply(now, op);
                seen.push(Seen { before, now, op, answer, after: key.clone() });
                now += answer.retry.unwrap_or(0).saturating_sub(round % 2);
            }
            all_bounds(limit, &seen)
        })?;
    }
}
