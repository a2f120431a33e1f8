//! Tests that the fields of a decision are correct, and that operations change the key exactly as
//! they report.

use proptest::prelude::*;
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit};

use super::{Key, Seen, Subject, any_ops, any_ops_with_jumps, config, each, period, shape};

/// Checks that a cost of `remaining` passes and one unit more does not, and that `used + remaining`
/// is the limit unless the usage exceeds it.
pub(crate) fn remaining_is_correct<S: Subject>(seen: &Seen<S>) -> Result<(), String> {
    let (answer, key) = (seen.answer, &seen.after);
    if answer.used <= answer.limit {
        if answer.used + answer.remaining != answer.limit {
            return Err(seen.wrong("used and remaining are not the limit"));
        }
        if !key.would(seen.now, Op::Hit(answer.remaining)).allowed {
            return Err(seen.wrong("a hit of remaining does not pass"));
        }
    } else if answer.remaining != 0 {
        return Err(seen.wrong("units remain although the usage exceeds the limit"));
    }
    if key.would(seen.now, Op::Hit(answer.remaining + 1)).allowed {
        return Err(seen.wrong("more passes than remains"));
    }
    Ok(())
}

/// Checks that a denied hit leaves the key unchanged.
pub(crate) fn denied_changes_nothing<S: Subject>(seen: &Seen<S>) -> Result<(), String> {
    if seen.answer.allowed || (seen.before == seen.after && seen.answer.charged == 0) {
        return Ok(());
    }
    Err(seen.wrong("a denial changed the key"))
}

/// Checks that a denied hit leaves the key unchanged, with two exceptions: with `charge_denied` it
/// is counted, and it extends an open elastic window.
fn denied_changes_only_what_the_limit_defines(
    limit: &Limit,
    seen: &Seen<Key>,
) -> Result<(), String> {
    let elastic = limit.algorithm() == Algorithm::ElasticWindow;
    if !elastic && !limit.charge_denied() || matches!(seen.op, Op::Peek(_)) {
        return denied_changes_nothing(seen);
    }
    if seen.answer.allowed {
        return Ok(());
    }
    let cost = match seen.op {
        Op::Hit(cost) if limit.charge_denied() => cost,
        Op::Take(1..) if limit.charge_denied() => 1,
        _ => 0,
    };
    let before = seen.before.would(seen.now, Op::Peek(0));
    let extended = before.reset.max(period(limit));
    let reset = match (elastic, before.reset, cost) {
        (true, 0, 0) => 0,
        (true, ..) => extended,
        // A counted hit opens a window if none is open. An open window keeps its end.
        (false, 0, _) => seen.answer.reset,
        (false, reset, _) => reset,
    };
    let answer = seen.answer;
    if (answer.used, answer.charged, answer.reset) != (before.used + cost, cost, reset) {
        return Err(seen.wrong(format!("expected {cost} charged and reset after {reset} us")));
    }
    Ok(())
}

/// Checks that a peek changes nothing and reports what a hit would get.
fn peek_changes_nothing(seen: &Seen<Key>) -> Result<(), String> {
    let Op::Peek(cost) = seen.op else { return Ok(()) };
    if seen.before != seen.after || seen.answer.charged != 0 {
        return Err(seen.wrong("a peek changed the key"));
    }
    let hit = seen.before.would(seen.now, Op::Hit(cost));
    if (hit.allowed, hit.retry) != (seen.answer.allowed, seen.answer.retry) {
        return Err(seen.wrong(format!("the hit would be answered {hit:?}")));
    }
    Ok(())
}

/// Checks that exactly the charged units are in use afterwards.
fn charges_are_counted(seen: &Seen<Key>) -> Result<(), String> {
    let before = seen.before.would(seen.now, Op::Peek(0));
    let (charged, allowed) = match seen.op {
        Op::Hit(cost) if seen.answer.allowed => (cost, true),
        Op::Take(cost) if seen.answer.allowed => (cost.min(before.remaining), true),
        Op::Charge(units) => (units, true),
        _ => return Ok(()),
    };
    let answer = seen.answer;
    if (answer.used, answer.charged, answer.allowed) != (before.used + charged, charged, allowed) {
        return Err(seen.wrong(format!("{charged} units should have been charged to {before:?}")));
    }
    Ok(())
}

fn take_grants_what_fits(seen: &Seen<Key>) -> Result<(), String> {
    let Op::Take(cost) = seen.op else { return Ok(()) };
    let fits = seen.before.would(seen.now, Op::Peek(0)).remaining;
    let granted = if seen.answer.allowed { seen.answer.charged } else { 0 };
    // A take of zero units is a hit of cost 0, which is denied only if the key was charged beyond
    // the limit.
    let allowed = match cost {
        0 => seen.before.would(seen.now, Op::Hit(0)).allowed,
        _ => granted > 0,
    };
    if granted != cost.min(fits) || seen.answer.allowed != allowed {
        return Err(seen.wrong(format!("{fits} units would have passed")));
    }
    Ok(())
}

fn set_puts_the_units_used(seen: &Seen<Key>) -> Result<(), String> {
    let Op::Set(units) = seen.op else { return Ok(()) };
    if seen.answer.used != units || !seen.answer.allowed {
        return Err(seen.wrong("the units in use are not those that were set"));
    }
    Ok(())
}

/// Checks that at one instant a hit of cost `n` equals `n` hits of cost 1: the key is the same
/// afterwards, and if the hit is denied, not all of the `n` hits pass.
fn hits_of_one_equal_the_hit(limit: &Limit, seen: &Seen<Key>) -> Result<(), String> {
    let Op::Hit(cost @ 1..) = seen.op else { return Ok(()) };
    let mut key = seen.before.clone();
    let all_pass = (0..cost).fold(true, |all, _| key.apply(seen.now, Op::Hit(1)).allowed && all);
    if all_pass != seen.answer.allowed {
        return Err(seen.wrong(format!("{cost} hits of cost 1 all pass: {all_pass}")));
    }
    // If the hit is denied, some of the hits of cost 1 may have passed, and the keys may differ.
    // With `charge_denied` both ways charge the same units.
    if (all_pass || limit.charge_denied()) && key != seen.after {
        return Err(seen.wrong(format!("after {cost} hits of cost 1 the key is {key:?}")));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_cost_of_remaining_passes_and_one_more_does_not(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            each(&timeline.walk(limit, Key::new(limit)), remaining_is_correct)
        })?;
    }

    #[test]
    fn denied_hit_leaves_state_unchanged(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            let seen = timeline.walk(limit, Key::new(limit));
            each(&seen, |seen| denied_changes_only_what_the_limit_defines(limit, seen))
        })?;
    }

    #[test]
    fn peeks_charges_and_sets_change_exactly_what_they_report(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            let seen = timeline.walk(limit, Key::new(limit));
            each(&seen, peek_changes_nothing)?;
            each(&seen, charges_are_counted)?;
            each(&seen, set_puts_the_units_used)
        })?;
    }

    #[test]
    fn a_take_grants_the_smaller_of_cost_and_remaining(
        shape in shape(), timeline in any_ops_with_jumps(),
    ) {
        shape.every_limit(|limit| {
            each(&timeline.walk(limit, Key::new(limit)), take_grants_what_fits)
        })?;
    }

    /// This holds for all eight algorithms, because none of them rounds its counts.
    #[test]
    fn hits_of_cost_one_equal_one_hit_of_their_sum(shape in shape(), timeline in any_ops()) {
        shape.every_limit(|limit| {
            let seen = timeline.walk(limit, Key::new(limit));
            each(&seen, |seen| hits_of_one_equal_the_hit(limit, seen))
        })?;
    }
}
