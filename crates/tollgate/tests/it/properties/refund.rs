//! A refund gives back what is still in use, and nothing else.

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
        return Err(seen.wrong(format!("before it {before:?}, refunded {after:?}")));
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
        return Err(seen.wrong(format!("{units} back of {before:?}")));
    }
    Ok(())
}

/// A receipt is worthless as soon as the state that it was given for would have been fresh: its
/// window has ended, its entry has left, its units have leaked. Units in use at that time belong to
/// other hits.
fn refund_finds_nothing_later(limit: &Limit, all: &[Seen<Key>]) -> Result<(), String> {
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
            return Err(seen.wrong(format!("a receipt of {} changed the key", given.now)));
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn refund_right_after_a_charge_restores_used(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            each(&timeline.walk(limit, Key::new(limit)), refund_right_after_restores)
        })?;
    }

    #[test]
    fn refund_is_never_beyond_fresh(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            each(&timeline.walk(limit, Key::new(limit)), refund_takes_at_most_its_units)
        })?;
    }

    #[test]
    fn refund_never_lands_in_another_window(shape in shape(), timeline in any_ops()) {
        shape.every_limit(|limit| {
            refund_finds_nothing_later(limit, &timeline.walk(limit, Key::new(limit)))
        })?;
    }

    /// The window ends at the same time, whether the first hit was given back or not.
    #[test]
    fn refund_to_zero_does_not_restart_the_window(
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
                return Err("a refund of all leaves something".to_owned());
            }
            let now = start + period(limit) * later / 1000;
            let expected = kept.apply(now, Op::Charge(1)).reset;
            let found = refunded.apply(now, Op::Charge(1)).reset;
            if found != expected {
                return Err(format!("ends after {found} us, without the refund {expected}"));
            }
            Ok(())
        })?;
    }
}

/// In the next window, a sliding window's receipt takes from the previous count.
#[test]
fn sliding_refund_after_a_shift_takes_from_the_previous_window() {
    let limit: Limit = "10/second sliding-window".parse().unwrap();
    assert_eq!(limit.algorithm(), Algorithm::SlidingWindow);
    let mut key = Key::new(&limit);
    let receipt = key.apply(START, Op::Hit(8)).receipt;
    key.apply(START + 1_500_000, Op::Hit(2));
    assert_eq!(key.would(START + 1_500_000, Op::Peek(0)).used, 4 + 2);
    assert_eq!(key.apply(START + 1_500_000, Op::Refund(receipt)).used, 2);
    assert_eq!(key.apply(START + 2_000_000, Op::Refund(receipt)).used, 2);
}
