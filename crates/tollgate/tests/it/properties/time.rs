//! Tests that a clock that goes back never admits more hits, and never makes a wait longer than the
//! jump plus the longest wait of the limit.

use proptest::prelude::*;
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit};

use super::{Key, Seen, Subject, Timeline, config, hits_with_jumps, period, shape};

/// Returns the longest wait of a limit if no units were charged beyond it.
fn own_wait(limit: &Limit) -> u64 {
    let (n, p) = (limit.quota(), period(limit));
    match limit.algorithm() {
        Algorithm::SlidingWindow => 2 * p,
        algorithm if algorithm.has_burst() => (limit.burst() * p).div_ceil(n),
        _ => p,
    }
}

/// Compares the answer with that of the same key at the time of its last change, because a clock
/// that never goes back would show at least that time.
fn compare_with_the_last_change(limit: &Limit, seen: &Seen<Key>, last: u64) -> Result<(), String> {
    let jump = last.saturating_sub(seen.now);
    let answer = seen.answer;
    if let Some(wait) = answer.retry.filter(|wait| *wait > jump + own_wait(limit)) {
        return Err(seen.wrong(format!("denied for {wait} us after a jump of {jump} us")));
    }
    if jump == 0 {
        return Ok(());
    }
    let mut forward = seen.before.clone();
    let clamped = forward.apply(last, seen.op);
    match (answer.allowed, clamped.allowed) {
        (true, false) => Err(seen.wrong(format!("at {last} the answer would be {clamped:?}"))),
        (true, true) if answer.charged == clamped.charged && forward != seen.after => {
            Err(seen.wrong(format!("at {last} the key would be {forward:?}")))
        }
        _ if answer.charged > clamped.charged => {
            Err(seen.wrong(format!("at {last} the charge would be {}", clamped.charged)))
        }
        _ => Ok(()),
    }
}

/// Returns how many hits have passed after each step. With `clamp` no time is earlier than the last
/// change of the key.
fn admitted(limit: &Limit, timeline: &Timeline, clamp: bool) -> Vec<u64> {
    let (mut key, mut last, mut total) = (Key::new(limit), 0, 0);
    let asked = timeline.walk(limit, Key::new(limit)).into_iter().map(|seen| seen.now);
    asked
        .map(|now| {
            let now = if clamp { now.max(last) } else { now };
            let before = key.clone();
            total += u64::from(key.apply(now, Op::Hit(1)).allowed);
            if key != before {
                last = now.max(last);
            }
            total
        })
        .collect()
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_clock_that_goes_back_admits_no_additional_hits(shape in shape(), timeline in hits_with_jumps()) {
        shape.every_limit(|limit| {
            let mut last = 0;
            timeline.walk(limit, Key::new(limit)).iter().try_for_each(|seen| {
                compare_with_the_last_change(limit, seen, last)?;
                if seen.before != seen.after {
                    last = seen.now.max(last);
                }
                Ok(())
            })
        })?;
    }

    /// At no step of a timeline have more hits passed than with a clock that stands still instead
    /// of going back.
    #[test]
    fn a_clock_that_goes_back_admits_no_more_than_one_that_stands_still(
        shape in shape(), timeline in hits_with_jumps(),
    ) {
        shape.every_limit(|limit| {
            let real = admitted(limit, &timeline, false);
            let clamped = admitted(limit, &timeline, true);
            if real.iter().zip(&clamped).any(|(real, clamped)| real > clamped) {
                return Err(format!("{real:?} hits passed, {clamped:?} if the clock stands still: {timeline:?}"));
            }
            Ok(())
        })?;
    }
}
