//! Tests that after `reset_after` a key answers as a new key does, and that it does not before.

use proptest::prelude::*;
use tollgate::Limit;
use tollgate::algorithm::Op;

use super::{Answer, Key, Seen, Subject, any_ops, any_ops_with_jumps, config, each, period, shape};

/// Returns the answers to some operations from `now` on, which are enough to distinguish windows,
/// entries and levels.
fn future(mut key: Key, limit: &Limit, now: u64) -> Vec<Answer> {
    let period = period(limit);
    let interval = (period / limit.quota()).min(period / 2);
    let half = limit.burst().div_ceil(2);
    let steps = [
        (0, Op::Peek(1)),
        (0, Op::Hit(1)),
        (interval, Op::Hit(half)),
        (period / 2, Op::Hit(half)),
        (period - 1, Op::Peek(limit.burst())),
        (period, Op::Hit(limit.burst())),
        (period * 3 / 2, Op::Hit(1)),
        (period * 2, Op::Hit(1)),
    ];
    steps.into_iter().map(|(later, op)| key.apply(now + later, op).fields()).collect()
}

fn acts_as_fresh(limit: &Limit, seen: &Seen<Key>, now: u64) -> Result<(), String> {
    let (found, fresh) =
        (future(seen.after.clone(), limit, now), future(Key::new(limit), limit, now));
    if found == fresh {
        return Ok(());
    }
    Err(seen.wrong(format!("at {now} the key answers {found:#?}, a fresh one {fresh:#?}")))
}

fn fresh_from_reset_on(limit: &Limit, seen: &Seen<Key>) -> Result<(), String> {
    let expires = seen.now + seen.answer.reset;
    for later in [0, period(limit) / 3, period(limit) - 1] {
        acts_as_fresh(limit, seen, expires + later)?;
    }
    if seen.after.would(expires, Op::Peek(0)).reset != 0 {
        return Err(seen.wrong("reset_after is not zero when it should be over"));
    }
    if seen.answer.reset > 0 && seen.after.would(expires - 1, Op::Peek(0)).reset != 1 {
        return Err(seen.wrong("reset_after is over too early"));
    }
    Ok(())
}

/// Checks that a key differs from a fresh one until one microsecond before its reset. Keys without
/// units in use are skipped, because they may act as a fresh key earlier.
fn not_fresh_before_reset(limit: &Limit, seen: &Seen<Key>) -> Result<(), String> {
    let last = seen.now + seen.answer.reset.saturating_sub(1);
    if seen.answer.reset == 0 || seen.after.would(last, Op::Peek(0)).used == 0 {
        return Ok(());
    }
    match acts_as_fresh(limit, seen, last) {
        Ok(()) => Err(seen.wrong("the key acts as fresh before reset_after is over")),
        Err(_) => Ok(()),
    }
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn after_reset_after_the_key_acts_as_a_fresh_one(shape in shape(), timeline in any_ops_with_jumps()) {
        shape.every_limit(|limit| {
            let seen = timeline.walk(limit, Key::new(limit));
            each(&seen, |seen| fresh_from_reset_on(limit, seen))
        })?;
    }

    #[test]
    fn before_reset_after_the_key_differs_from_a_fresh_one(shape in shape(), timeline in any_ops()) {
        shape.every_limit(|limit| {
            let seen = timeline.walk(limit, Key::new(limit));
            each(&seen, |seen| not_fresh_before_reset(limit, seen))
        })?;
    }
}
