//! Tests that `retry_after` is exact: a hit one microsecond earlier is denied, a hit at that time
//! is admitted, and there is no wait if the cost can never pass.

use proptest::prelude::*;
use tollgate::algorithm::Op;

use super::{Answer, Key, Seen, Subject, any_ops, any_ops_with_jumps, config, each, hits, shape};

/// Checks that the wait in one answer is exact.
pub(crate) fn retry_is_exact<S: Subject>(seen: &Seen<S>) -> Result<(), String> {
    // A denied take reports the wait for one unit.
    let (cost, mut key) = match seen.op {
        Op::Hit(cost) | Op::Peek(cost) => (cost, seen.after.clone()),
        Op::Take(cost) => (cost.min(1), seen.after.clone()),
        _ => return Ok(()),
    };
    let Answer { allowed, retry, limit, .. } = seen.answer;
    if allowed {
        return if retry == Some(0) { Ok(()) } else { Err(seen.wrong("allowed with a wait")) };
    }
    let Some(wait) = retry else {
        return if cost > limit { Ok(()) } else { Err(seen.wrong("no wait for a cost that fits")) };
    };
    if cost > limit {
        return Err(seen.wrong("a wait for a cost that never passes"));
    }
    if matches!(seen.op, Op::Peek(_)) {
        // A peek reports the wait that a hit would get. The hit itself may extend an elastic
        // window.
        let hit = key.apply(seen.now, Op::Hit(cost));
        if hit.allowed || hit.retry != Some(wait) {
            return Err(seen.wrong(format!("the hit after a peek got {hit:?}")));
        }
    }
    let before = key.would(seen.now + wait - 1, Op::Hit(cost));
    if wait == 0 || before.allowed {
        return Err(seen.wrong(format!("one microsecond before the wait is over: {before:?}")));
    }
    let on_time = key.would(seen.now + wait, Op::Hit(cost));
    if !on_time.allowed {
        return Err(seen.wrong(format!("when the wait is over: {on_time:?}")));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_hit_is_denied_just_before_retry_after_and_allowed_at_it(shape in shape(), timeline in hits()) {
        shape.every_limit(|limit| each(&timeline.walk(limit, Key::new(limit)), retry_is_exact))?;
    }

    #[test]
    fn retry_is_exact_after_any_operation(shape in shape(), timeline in any_ops()) {
        shape.every_limit(|limit| each(&timeline.walk(limit, Key::new(limit)), retry_is_exact))?;
    }

    #[test]
    fn retry_is_exact_when_the_clock_went_back(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| each(&timeline.walk(limit, Key::new(limit)), retry_is_exact))?;
    }
}
