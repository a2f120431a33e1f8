//! Tests that a refund gives back the units of its receipt that are still in use, and no others.

use proptest::prelude::*;
use tollgate::algorithm::Op;
use tollgate::{Algorithm, Limit};

use super::{Key, START, Seen, Subject, any_ops, any_ops_with_jumps, config, each, period, shape};

fn refund_right_after_restores(seen: &Seen<Key>) -> Result<(), String> {
    let charged = matches!(seen.op, Op::Hit(_) | Op::Take(_) | Op::Charge(_));
    if !charged || seen.answer.charged == 0 {
        return Ok(());
    }
    let before = seen.before.would(seen.now, Op::Peek(0));
    let after = seen.after.would(seen.now, Op::Refund(seen.answer.receipt));
    if (after.used, after.remaining) != (before.used, before.remaining) {
        return Err(seen.wrong(format!("before the charge {before:?}, after the refund {after:?}")));
    }
    Ok(())
}

fn refund_takes_at_most_its_units(seen: &Seen<Key>) -> Result<(), String> {
    let units = match seen.op {
        Op::Refund(receipt) => receipt.units,
        Op::RefundUnits(units) => units,
        _ => return Ok(()),
    };
    let before = seen.before.would(seen.now, Op::Peek(0));
    let answer = seen.answer;
    let in_range = before.used.saturating_sub(units)..=before.used;
    if !in_range.contains(&answer.used) || answer.remaining > answer.limit || answer.charged > 0 {
        return Err(seen.wrong(format!("a refund of {units} units of {before:?}")));
    }
    Ok(())
}

/// Checks that a refund changes nothing if the units of its receipt no longer count, because their
/// window has ended, their entry has expired or they have leaked. Units in use at that time belong
/// to other hits.
fn an_expired_receipt_changes_nothing(limit: &Limit, all: &[Seen<Key>]) -> Result<(), String> {
    each(all, |seen| {
        let Op::Refund(receipt) = seen.op else { return Ok(()) };
        let given = all.iter().find(|earlier| earlier.answer.receipt == receipt);
        let Some(given) = given else { return Ok(()) };
        let age = seen.now - given.now;
        let gone = if limit.algorithm().has_burst() {
            age * limit.quota() >= receipt.units * period(limit)
        } else {
            age >= given.answer.reset
        };
        if (gone || receipt.units == 0) && seen.before != seen.after {
            return Err(
                seen.wrong(format!("an expired or empty receipt of {} changed the key", given.now))
            );
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_refund_right_after_a_charge_restores_the_usage(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            each(&timeline.walk(limit, Key::new(limit)), refund_right_after_restores)
        })?;
    }

    #[test]
    fn a_refund_reduces_the_usage_by_at_most_its_units(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            each(&timeline.walk(limit, Key::new(limit)), refund_takes_at_most_its_units)
        })?;
    }

    #[test]
    fn a_refund_never_affects_a_later_window(shape in shape(), timeline in any_ops()) {
        shape.every_limit(|limit| {
            an_expired_receipt_changes_nothing(limit, &timeline.walk(limit, Key::new(limit)))
        })?;
    }

    /// The window ends at the same time whether its first hit was refunded or not.
    #[test]
    fn a_refund_of_all_units_does_not_restart_the_window(
        shape in shape(), offset in 0_u64..3_000_000, later in 0_u64..1000,
    ) {
        let start = START + offset;
        shape.every_limit(|limit| {
            if limit.algorithm().has_burst() {
                return Ok(());
            }
            let mut kept = Key::new(limit);
            let receipt = kept.apply(start, Op::Hit(1)).receipt;
            let mut refunded = kept.clone();
            if refunded.apply(start, Op::Refund(receipt)).used != 0 {
                return Err("units are left after a refund of all units".to_owned());
            }
            let now = start + period(limit) * later / 1000;
            let expected = kept.apply(now, Op::Charge(1)).reset;
            let found = refunded.apply(now, Op::Charge(1)).reset;
            if found != expected {
                return Err(format!("the window ends after {found} us, without the refund after {expected} us"));
            }
            Ok(())
        })?;
    }
}

/// In the next window of a sliding window, a refund reduces the previous count.
#[test]
fn a_refund_in_the_next_sliding_window_reduces_the_previous_count() {
    let limit: Limit = "10/second sliding-window".parse().unwrap();
    assert_eq!(limit.algorithm(), Algorithm::SlidingWindow);
    let mut key = Key::new(&limit);
    let receipt = key.apply(START, Op::Hit(8)).receipt;
    key.apply(START + 1_500_000, Op::Hit(2));
    assert_eq!(key.would(START + 1_500_000, Op::Peek(0)).used, 4 + 2);
    assert_eq!(key.apply(START + 1_500_000, Op::Refund(receipt)).used, 2);
    assert_eq!(key.apply(START + 2_000_000, Op::Refund(receipt)).used, 2);
}
