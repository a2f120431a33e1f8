//! Models of the table. loom tries the interleavings of a few threads, and the values that they may
//! read under the weak memory model.
//!
//! A state is a count. The first generation has one line of four slots, so three keys fill it, and
//! a fourth key makes the table grow. A chunk is one line.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p tollgate --lib loom
//! ```

use loom::thread;

use super::*;

const KEY: u64 = FIRST_FINGERPRINT;
/// A key whose home is the second line, if there are two lines.
const FAR: u64 = 1 << 16;
/// The count of a state that has expired (equals a fresh one), as [`judge`] decides.
const EXPIRED: u64 = 9;
/// The time at which an expired state became fresh.
const SINCE: u64 = 50;

type Counts = Table<u64>;

/// Runs a model with at most this many preemptions. `LOOM_MAX_PREEMPTIONS` may lower the number.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    let asked = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(asked.min(preemptions));
    builder.max_branches = 20_000;
    builder.check(model);
}

fn table(max_keys: usize) -> Arc<Counts> {
    Arc::new(Table::new(Arc::new(Shared::new(max_keys)), 0))
}

/// Returns a table with these keys, each of which was hit once.
fn table_of(keys: &[u64]) -> Arc<Counts> {
    let table = table(100);
    for key in keys {
        hit(&table, *key);
    }
    table
}

fn spawn(table: &Arc<Counts>, work: impl FnOnce(&Counts) + 'static) -> thread::JoinHandle<()> {
    let table = Arc::clone(table);
    thread::spawn(move || work(&table))
}

fn wait_for(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

fn stays(_: u64) -> Fate {
    Fate::Stays
}

fn judge(word: u64) -> Fate {
    if word.payload() == Some(EXPIRED) { Fate::FreshSince(SINCE) } else { Fate::Stays }
}

/// Executes one step on the word of a key as the store does: first on the fast path, then by
/// `update`.
fn act<R>(
    table: &Counts,
    key: u64,
    fate: &dyn Fn(u64) -> Fate,
    mut f: impl FnMut(u64) -> (Next<u64>, R),
) -> Result<R, Full> {
    let guard = pin();
    if let Some(cell) = table.find(&guard, key) {
        let mut word = u64::load(cell, Ordering::Acquire);
        while word != u64::VOID && !word.is_frozen() {
            let (next, result) = f(word);
            let Next::Put(new) = next else { return Ok(result) };
            match u64::replace(cell, word, new) {
                Ok(()) => return Ok(result),
                Err(found) => word = found,
            }
        }
    }
    table.update(&guard, key, fate, &mut f)
}

fn one_more(word: u64) -> (Next<u64>, u64) {
    let count = word.payload().unwrap_or(0) + 1;
    (Next::Put(u64::present(count).with_used(true)), count)
}

/// Adds one to the count of a key, and returns the new count.
fn hit(table: &Counts, key: u64) -> u64 {
    act(table, key, &stays, one_more).expect("there is room")
}

fn put(table: &Counts, key: u64, count: u64) {
    let set = |_| (Next::Put(u64::present(count)), ());
    act(table, key, &stays, set).expect("there is room");
}

fn reset(table: &Counts, key: u64) {
    let forget = |word: u64| match word.payload() {
        Some(_) => (Next::Put(u64::CLEARED), ()),
        None => (Next::Keep, ()),
    };
    act(table, key, &stays, forget).expect("a reset claims no slot");
}

/// Returns the count of a key, after all threads have ended.
fn count(table: &Counts, key: u64) -> Option<u64> {
    let guard = pin();
    table.finish(table.current(&guard), &judge);
    let mut slots = table.current(&guard).probe(key);
    let slot = slots.find(|slot| slot.fingerprint.load(Ordering::Acquire) == key)?;
    u64::load(&slot.word, Ordering::Acquire).payload()
}

/// Checks the table after all threads have ended: every key has at most one slot, and the counters
/// of keys and claims match the slots.
fn audit(table: &Counts, counts: &[(u64, Option<u64>)]) {
    for (key, expected) in counts {
        assert_eq!(count(table, *key), *expected, "the count of {key}");
    }
    let guard = pin();
    let generation = table.current(&guard);
    assert!(generation.next().is_none(), "no move is in progress");
    let slots = (0..generation.lines).flat_map(|index| generation.line(index));
    let mut taken: Vec<u64> = slots.map(|slot| slot.fingerprint.load(Ordering::Acquire)).collect();
    assert!(!taken.contains(&SEALED), "no slot is sealed without a move");
    taken.retain(|found| *found != EMPTY);
    assert_eq!(table.len(), taken.len(), "the table counts its slots");
    assert_eq!(
        table.shared.keys.load(Ordering::Relaxed),
        taken.len(),
        "the store counts its slots"
    );
    let claimed = generation.claimed.load(Ordering::Relaxed);
    assert!(
        taken.len() <= claimed && claimed <= capacity(generation.lines),
        "the count of claims is at least the slots and at most the capacity"
    );
    taken.sort_unstable();
    assert!(taken.windows(2).all(|two| two[0] < two[1]), "a key has one slot");
}

#[test]
fn two_threads_that_hit_a_new_key_share_one_slot() {
    check(3, || {
        let table = table(100);
        let other = spawn(&table, |table| {
            hit(table, KEY);
        });
        hit(&table, KEY);
        wait_for([other]);
        audit(&table, &[(KEY, Some(2))]);
    });
}

#[test]
fn two_threads_that_hit_a_new_key_during_a_move_share_one_slot() {
    check(2, || {
        let table = table(100);
        table.begin_move(Move::Tidy, &stays);
        let other = spawn(&table, |table| {
            hit(table, KEY);
        });
        hit(&table, KEY);
        wait_for([other]);
        audit(&table, &[(KEY, Some(2))]);
    });
}

#[test]
fn new_keys_with_the_same_home_get_a_slot_each() {
    check(3, || {
        let table = table(100);
        let other = spawn(&table, |table| put(table, KEY, 5));
        put(&table, KEY + 1, 6);
        wait_for([other]);
        audit(&table, &[(KEY, Some(5)), (KEY + 1, Some(6))]);
    });
}

#[test]
fn a_hit_during_a_move_is_counted_once() {
    check(3, || {
        let table = table_of(&[KEY]);
        let other = spawn(&table, |table| {
            hit(table, KEY);
        });
        table.move_all(Move::Tidy, &stays);
        wait_for([other]);
        audit(&table, &[(KEY, Some(2))]);
    });
}

#[test]
fn a_hit_that_takes_part_in_a_move_is_counted_once() {
    check(3, || {
        let table = table_of(&[KEY]);
        table.begin_move(Move::Tidy, &stays);
        let other = spawn(&table, |table| {
            hit(table, KEY);
        });
        hit(&table, KEY);
        wait_for([other]);
        audit(&table, &[(KEY, Some(3))]);
    });
}

#[test]
fn a_new_key_during_a_move_is_found_after_it() {
    check(2, || {
        let table = table_of(&[KEY]);
        let other = spawn(&table, |table| {
            hit(table, KEY + 1);
        });
        table.move_all(Move::Tidy, &stays);
        wait_for([other]);
        audit(&table, &[(KEY, Some(1)), (KEY + 1, Some(1))]);
    });
}

#[test]
fn a_new_state_starts_no_earlier_than_the_floor() {
    check(3, || {
        let table = table(100);
        put(&table, KEY, EXPIRED);
        let other = spawn(&table, |table| {
            // The payload of a new state is its time. By this caller's clock the old state has not
            // yet expired.
            let step = |word: u64| {
                let new = word.payload().map_or_else(|| table.floor().max(20), |count| count + 1);
                (Next::Put(u64::present(new)), ())
            };
            act(table, KEY, &stays, step).expect("there is room");
        });
        let gone = table.move_all(Move::Tidy, &judge);
        wait_for([other]);
        let expected = if gone == 0 { EXPIRED + 1 } else { SINCE };
        audit(&table, &[(KEY, Some(expected))]);
    });
}

#[test]
fn a_hit_during_a_clear_is_counted_or_cleared() {
    check(3, || {
        let table = table(100);
        put(&table, KEY, 5);
        let other = spawn(&table, |table| {
            hit(table, KEY);
        });
        table.clear();
        wait_for([other]);
        let found = count(&table, KEY);
        assert!(found.is_none() || found == Some(1), "{found:?}");
        audit(&table, &[(KEY, found)]);
        assert_eq!(hit(&table, KEY), found.unwrap_or(0) + 1);
        audit(&table, &[(KEY, Some(found.unwrap_or(0) + 1))]);
    });
}

#[test]
fn a_clear_removes_all_states_even_if_another_move_begins() {
    check(3, || {
        let table = table(100);
        put(&table, KEY, 5);
        let other = spawn(&table, |table| table.begin_move(Move::Tidy, &stays));
        table.clear();
        wait_for([other]);
        audit(&table, &[(KEY, None)]);
    });
}

#[test]
fn a_clear_removes_all_states_even_if_another_thread_moves_them() {
    check(2, || {
        let table = table(100);
        put(&table, KEY, 5);
        let other = spawn(&table, |table| {
            table.move_all(Move::Tidy, &stays);
        });
        table.clear();
        wait_for([other]);
        audit(&table, &[(KEY, None)]);
    });
}

#[test]
fn a_clear_removes_the_state_that_keys_without_a_slot_share() {
    check(2, || {
        let table = table(100);
        u64::replace_in_order(&table.overflow, u64::VOID, u64::present(5)).expect("it is void");
        let other = spawn(&table, |table| {
            hit(table, KEY);
        });
        table.clear();
        wait_for([other]);
        let found = count(&table, KEY);
        assert!(found.is_none() || found == Some(1), "{found:?}");
        audit(&table, &[(KEY, found)]);
    });
}

#[test]
fn two_threads_that_move_the_same_chunk_lose_no_state() {
    check(2, || {
        let table = table_of(&[KEY, KEY + 1]);
        table.begin_move(Move::Tidy, &stays);
        let old = table.current.load(Ordering::Acquire);
        let finish = |table: &Counts| {
            let guard = pin();
            table.finish(table.current(&guard), &stays);
        };
        let other = spawn(&table, finish);
        finish(&table);
        wait_for([other]);
        // SAFETY: no generation is freed under loom.
        let old = unsafe { &*old };
        assert_eq!(old.moved_count.load(Ordering::Acquire), old.moved.len());
        assert_eq!(old.next.load(Ordering::Acquire), table.current.load(Ordering::Acquire));
        audit(&table, &[(KEY, Some(1)), (KEY + 1, Some(1))]);
    });
}

#[test]
fn two_complete_moves_at_the_same_time_lose_no_state() {
    check(2, || {
        let table = table_of(&[KEY, KEY + 1]);
        let other = spawn(&table, |table| {
            table.move_all(Move::Tidy, &stays);
        });
        table.move_all(Move::Tidy, &stays);
        wait_for([other]);
        audit(&table, &[(KEY, Some(1)), (KEY + 1, Some(1))]);
    });
}

/// There are two chunks. Threads have taken both and were interrupted. One of the threads continues
/// while another one moves the unfinished chunks.
#[test]
fn a_chunk_that_two_threads_move_is_counted_once() {
    check(2, || {
        let table = table(100);
        let guard = pin();
        let large = Box::into_raw(Box::new(Generation::new(2, 0, Move::Tidy)));
        let small = table.current.swap(large, Ordering::AcqRel);
        // SAFETY: no other thread has seen the first generation of the table.
        drop(unsafe { Box::from_raw(small) });
        hit(&table, KEY);
        hit(&table, FAR);
        table.begin_move(Move::Tidy, &stays);
        table.current(&guard).cursor.fetch_add(2, Ordering::Relaxed);
        let interrupted = spawn(&table, |table| {
            let guard = pin();
            let from = table.current(&guard);
            if let Some(to) = from.next() {
                table.move_chunk_number(from, to, 0, &stays);
            }
            hit(table, FAR);
        });
        table.finish(table.current(&guard), &stays);
        wait_for([interrupted]);
        audit(&table, &[(KEY, Some(1)), (FAR, Some(2))]);
    });
}

#[test]
fn a_thread_that_copies_late_does_not_undo_a_reset() {
    check(3, || {
        let table = table_of(&[KEY]);
        table.begin_move(Move::Tidy, &stays);
        let other = spawn(&table, |table| {
            let guard = pin();
            table.finish(table.current(&guard), &stays);
        });
        reset(&table, KEY);
        wait_for([other]);
        audit(&table, &[(KEY, None)]);
    });
}

#[test]
fn new_keys_that_make_the_table_grow_are_all_found() {
    check(2, || {
        let table = table_of(&[KEY, KEY + 1]);
        let other = spawn(&table, |table| {
            hit(table, KEY + 2);
        });
        hit(&table, KEY + 3);
        wait_for([other]);
        let counts = [0, 1, 2, 3].map(|n| (KEY + n, Some(1)));
        audit(&table, &counts);
    });
}

#[test]
fn new_keys_of_a_full_generation_are_all_found() {
    check(1, || {
        let table = table_of(&[KEY, KEY + 1, KEY + 2]);
        let other = spawn(&table, |table| {
            hit(table, KEY + 3);
        });
        hit(&table, FAR);
        wait_for([other]);
        let counts = [0, 1, 2, 3].map(|n| (KEY + n, Some(1)));
        audit(&table, &counts);
        audit(&table, &[(FAR, Some(1))]);
    });
}

/// Returns whether a limit of one admits a hit. This is a simplified version of what the store does
/// for a key that has no slot.
fn admits(table: &Counts, key: u64) -> bool {
    let step = |word: u64| match word.payload() {
        Some(1..) => (Next::Keep, false),
        _ => (Next::Put(u64::present(1)), true),
    };
    loop {
        match act(table, key, &judge, step) {
            Ok(admitted) => return admitted,
            Err(Full) => {
                if let Some(admitted) = admits_by_overflow(table, key, step) {
                    return admitted;
                }
            }
        }
    }
}

fn admits_by_overflow(
    table: &Counts,
    key: u64,
    step: impl Fn(u64) -> (Next<u64>, bool),
) -> Option<bool> {
    let mut word = u64::load(&table.overflow, Ordering::SeqCst);
    let admitted = loop {
        let (next, admitted) = step(word);
        let Next::Put(new) = next else { break admitted };
        match u64::replace_in_order(&table.overflow, word, new) {
            Ok(()) => break admitted,
            Err(found) => word = found,
        }
    };
    if !table.has_slot(key, &judge) {
        return Some(admitted);
    }
    if admitted {
        let charged = u64::present(1);
        let _ = u64::replace_in_order(&table.overflow, charged, u64::CLEARED);
    }
    None
}

/// Returns the table of a store for one key, whose only slot has an expired state.
fn table_at_bound() -> Arc<Counts> {
    let table = table(1);
    put(&table, KEY, EXPIRED);
    table
}

fn admitted_by_two(
    table: &Arc<Counts>,
    first: impl FnOnce(&Counts) -> bool + 'static,
    second: impl FnOnce(&Counts) -> bool,
) -> usize {
    let other = Arc::clone(table);
    let first = thread::spawn(move || first(&other));
    let second = second(table);
    usize::from(first.join().expect("no thread panics")) + usize::from(second)
}

#[test]
fn the_overflow_state_and_a_new_slot_do_not_both_admit_a_hit() {
    check(2, || {
        let table = table_at_bound();
        let admitted = admitted_by_two(
            &table,
            |table| admits(table, KEY + 1),
            |table| {
                table.move_all(Move::Tidy, &judge);
                admits(table, KEY + 1)
            },
        );
        assert!(admitted <= 1, "{admitted}");
        audit(&table, &[(KEY, None)]);
    });
}

/// The move has begun before the two callers hit, and one of them may still find the store at its
/// bound.
#[test]
fn the_overflow_state_and_a_new_slot_do_not_both_admit_a_hit_during_a_move() {
    check(2, || {
        let table = table_at_bound();
        table.begin_move(Move::Tidy, &judge);
        let admitted =
            admitted_by_two(&table, |table| admits(table, KEY + 1), |table| admits(table, KEY + 1));
        assert!(admitted <= 1, "{admitted}");
        audit(&table, &[(KEY, None)]);
    });
}

#[test]
fn two_hits_during_a_move_are_both_counted() {
    check(2, || {
        let table = table_of(&[KEY]);
        let hits = [(); 2].map(|()| {
            spawn(&table, |table| {
                hit(table, KEY);
            })
        });
        table.move_all(Move::Tidy, &stays);
        wait_for(hits);
        audit(&table, &[(KEY, Some(3))]);
    });
}

/// Returns whether a limit of one admits a hit. An expired state counts as none, and its slot is
/// reused.
fn admits_if_expired(table: &Counts, key: u64) -> bool {
    let step = |word: u64| match word.payload() {
        None | Some(EXPIRED) => (Next::Put(u64::present(1)), true),
        Some(_) => (Next::Keep, false),
    };
    act(table, key, &judge, step).expect("there is room")
}

#[test]
fn an_expired_state_is_replaced_only_once() {
    check(3, || {
        let table = table(100);
        put(&table, KEY, EXPIRED);
        let admitted = admitted_by_two(
            &table,
            |table| admits_if_expired(table, KEY),
            |table| admits_if_expired(table, KEY),
        );
        assert_eq!(admitted, 1);
        audit(&table, &[(KEY, Some(1))]);
    });
}

#[test]
fn an_expired_state_is_replaced_only_once_while_a_move_drops_it() {
    check(2, || {
        let table = table(100);
        put(&table, KEY, EXPIRED);
        let admitted = admitted_by_two(
            &table,
            |table| admits_if_expired(table, KEY),
            |table| {
                table.move_all(Move::Tidy, &judge);
                admits_if_expired(table, KEY)
            },
        );
        assert_eq!(admitted, 1);
        audit(&table, &[(KEY, Some(1))]);
    });
}

/// One caller keeps states that have expired recently, the other one drops them.
#[test]
fn an_expired_state_is_replaced_only_once_even_if_two_movers_disagree_on_its_fate() {
    check(2, || {
        let table = table(100);
        put(&table, KEY, EXPIRED);
        table.begin_move(Move::Tidy, &stays);
        let admitted = admitted_by_two(
            &table,
            |table| {
                let guard = pin();
                table.finish(table.current(&guard), &stays);
                admits_if_expired(table, KEY)
            },
            |table| admits_if_expired(table, KEY),
        );
        assert_eq!(admitted, 1);
        audit(&table, &[(KEY, Some(1))]);
    });
}
