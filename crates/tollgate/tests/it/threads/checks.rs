//! Checks of single keys that several threads hit at the same time.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tollgate::{Limiter, ManualClock, Source};

use super::{Checked, expect_equal, on_threads, still};
use crate::stores::{HOUR, START, Settings, Subject, limiter, limiters};

pub(super) fn one_key_admits_exactly_the_limit<S: Subject>() -> Checked {
    const QUOTA: usize = 500;
    let store = still::<S>();
    for limited in limiters(&store, QUOTA as u64, HOUR) {
        for key in 0..5 {
            let admitted =
                on_threads(4, |_| (0..QUOTA / 2).filter(|_| limited.hit(key).allowed()).count());
            let what = format!("{} admitted", limited.limits()[0]);
            expect_equal(&what, admitted.iter().sum(), QUOTA)?;
            expect_equal(&what, limited.usage(key), QUOTA as u64)?;
        }
    }
    Ok(())
}

/// Lets two threads start each group of keys at the same time.
struct InStep(AtomicUsize);

impl InStep {
    const GROUP: usize = 8;

    fn at(&self, index: usize) {
        if index.is_multiple_of(InStep::GROUP) {
            self.0.fetch_add(1, Ordering::AcqRel);
            while self.0.load(Ordering::Acquire) < 2 * (index / InStep::GROUP + 1) {
                std::thread::yield_now();
            }
        }
    }
}

pub(super) fn a_fresh_key_with_a_limit_of_one_admits_exactly_one_hit<S: Subject>() -> Checked {
    const KEYS: usize = 4_000;
    let store = still::<S>();
    for limited in limiters(&store, 1, HOUR) {
        let step = InStep(AtomicUsize::new(0));
        let admitted = on_threads(2, |_| {
            let hit = |key: usize| {
                step.at(key);
                limited.hit(key).allowed()
            };
            (0..KEYS).map(hit).collect::<Vec<bool>>()
        });
        let wrong = (0..KEYS).filter(|key| admitted[0][*key] == admitted[1][*key]).count();
        let what = format!("{}: keys not admitted exactly once", limited.limits()[0]);
        expect_equal(&what, wrong, 0)?;
    }
    Ok(())
}

pub(super) fn the_usage_is_exact_after_concurrent_hits_and_refunds<S: Subject>() -> Checked {
    const QUOTA: u64 = 3;
    let store = still::<S>();
    for limited in limiters(&store, QUOTA, HOUR) {
        let held = AtomicI64::new(0);
        let run = |index: usize| {
            let (mut kept, mut most) = (0, 0);
            for n in 0..2_000_usize {
                let hit = limited.hit("key");
                if !hit.allowed() {
                    continue;
                }
                // A unit is counted after its charge and until before its refund, so the count
                // never exceeds the units charged.
                most = most.max(held.fetch_add(1, Ordering::SeqCst) + 1);
                if n == 1_999 && index == 0 {
                    kept += 1;
                } else {
                    held.fetch_sub(1, Ordering::SeqCst);
                    let _ = limited.refund("key", &hit);
                }
            }
            (kept, most)
        };
        let results = on_threads(3, run);
        let most = results.iter().map(|(_, most)| *most).max().unwrap_or_default();
        if most > QUOTA as i64 {
            return Err(format!("{}: {most} units in use at the same time", limited.limits()[0]));
        }
        let kept = results.iter().map(|(kept, _)| kept).sum();
        let what = format!("{}: used after all refunds", limited.limits()[0]);
        expect_equal(&what, limited.usage("key"), kept)?;
    }
    Ok(())
}

pub(super) fn takes_get_exactly_the_limit_in_total<S: Subject>() -> Checked {
    const QUOTA: u64 = 1_000;
    let store = still::<S>();
    for limited in limiters(&store, QUOTA, HOUR) {
        for key in 0..20 {
            let taken = on_threads(3, |index| {
                (0..100).map(|_| limited.take(key, 3 + index as u64).charged()).sum::<u64>()
            });
            expect_equal(
                &format!("{}: units taken", limited.limits()[0]),
                taken.iter().sum(),
                QUOTA,
            )?;
        }
    }
    Ok(())
}

/// Two threads add new keys while each also hits keys that the other one has added.
pub(super) fn no_key_is_lost_while_a_store_grows<S: Subject>(keys_each: u64) -> Checked {
    let store = still::<S>();
    let limited = limiter(&store, "1/hour");
    let named = limiter(&store, "1/hour token-bucket name=wide");
    let shown = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let wrong = on_threads(2, |own| {
        let mut wrong = 0;
        let other = 1 - own;
        for n in 0..keys_each {
            // In a store that packs states, these states are in a separate table with wide words.
            let grown = if n.is_multiple_of(10) { &named } else { &limited };
            wrong += u64::from(!grown.hit((own, n)).allowed());
            shown[own].store(n as usize + 1, Ordering::Release);
            let seen = shown[other].load(Ordering::Acquire) as u64;
            if let Some(older) = (n * 31).checked_rem(seen) {
                let grown = if older.is_multiple_of(10) { &named } else { &limited };
                wrong += u64::from(grown.hit((other, older)).allowed());
            }
        }
        wrong
    });
    expect_equal("keys that were lost or known too early while the table grew", wrong, vec![0, 0])?;
    let forgotten = |own: u64| {
        let is_free = |n: &u64| {
            let grown = if n.is_multiple_of(10) { &named } else { &limited };
            grown.peek((own, *n)).allowed()
        };
        (0..keys_each).filter(is_free).count()
    };
    expect_equal("keys that were lost at the end", [forgotten(0), forgotten(1)], [0, 0])?;
    expect_equal("keys counted", store.entries() as u64, 2 * keys_each)
}

/// At the bound all keys without a slot together are admitted up to the limit once. Each key with a
/// slot is admitted once, because it hits only once.
pub(super) fn the_bound_on_keys_holds_for_new_keys_from_many_threads<S: Subject>() -> Checked {
    const QUOTA: usize = 50;
    const ROOM: usize = 100;
    for round in 0..5 {
        let clock = ManualClock::new(START);
        let store = S::build(Settings { max_keys: ROOM, ..Settings::new(clock) });
        let limited: Limiter<S> = limiter(&store, &format!("{QUOTA}/hour"));
        let results = on_threads(3, |own| {
            let (mut at_bound, mut with_slot) = (0, 0);
            for n in 0..2_000 {
                let hit = limited.hit((own, n));
                match hit.source() {
                    Source::Store => with_slot += usize::from(hit.allowed()),
                    _ => at_bound += usize::from(hit.allowed()),
                }
            }
            (at_bound, with_slot)
        });
        let at_bound: usize = results.iter().map(|(at_bound, _)| at_bound).sum();
        let with_slot: usize = results.iter().map(|(_, with_slot)| with_slot).sum();
        expect_equal(&format!("round {round}: admitted at the bound"), at_bound, QUOTA)?;
        expect_equal(&format!("round {round}: admitted with a slot"), with_slot, ROOM)?;
        expect_equal("keys", store.entries(), ROOM)?;
    }
    Ok(())
}

/// Forgetting a key is an atomic step too. Each time, the key is admitted at most up to its limit
/// once more, and its count starts at zero.
pub(super) fn each_reset_or_clear_amid_hits_admits_at_most_one_more_limit<S: Subject>() -> Checked {
    const QUOTA: u64 = 10;
    const TIMES: u64 = 30;
    let store = still::<S>();
    for limited in limiters(&store, QUOTA, HOUR) {
        let forgotten = AtomicUsize::new(0);
        let admitted = on_threads(3, |index| {
            if index == 2 {
                for n in 0..TIMES {
                    if n.is_multiple_of(2) {
                        limited.clear();
                    } else {
                        limited.reset("key");
                    }
                    forgotten.fetch_add(1, Ordering::Release);
                    std::thread::yield_now();
                }
                return 0;
            }
            let (mut admitted, mut n) = (0, 0);
            while n < 1_000 || forgotten.load(Ordering::Acquire) < TIMES as usize {
                admitted += u64::from(limited.hit("key").allowed());
                n += 1;
            }
            admitted
        });
        let admitted: u64 = admitted.iter().sum();
        // The units that are left after the last round.
        let rest = (0..2 * QUOTA).filter(|_| limited.hit("key").allowed()).count() as u64;
        if admitted + rest > QUOTA * (TIMES + 1) {
            return Err(format!("{}: {admitted} and {rest} admitted", limited.limits()[0]));
        }
        expect_equal(
            &format!("{}: units in use at the end", limited.limits()[0]),
            limited.usage("key"),
            QUOTA,
        )?;
    }
    Ok(())
}

/// Slots become free while new keys arrive. A key that gets a slot keeps the units that it used
/// without a slot.
pub(super) fn a_key_that_gets_a_slot_gets_no_additional_units<S: Subject>() -> Checked {
    const QUOTA: usize = 20;
    const ROOM: u64 = 8;
    for round in 0..20_u64 {
        let clock = ManualClock::new(START);
        let store = S::build(Settings { max_keys: ROOM as usize, ..Settings::new(clock) });
        let limited: Limiter<S> = limiter(&store, &format!("{QUOTA}/hour"));
        let leaving = |n: u64| (round, "leaving", n);
        for n in 0..ROOM {
            if !limited.hit(leaving(n)).allowed() {
                return Err("a fresh key was refused".to_owned());
            }
        }
        let keys = 0..12_u64;
        let admitted = on_threads(3, |index| {
            if index == 2 {
                for n in 0..ROOM {
                    limited.reset(leaving(n));
                    store.sweep();
                    std::thread::yield_now();
                }
                return vec![0; 12];
            }
            let mut admitted = vec![0; 12];
            for _ in 0..QUOTA * 2 {
                for key in keys.clone() {
                    admitted[key as usize] += usize::from(limited.hit(key).allowed());
                }
            }
            admitted
        });
        for key in keys {
            let total: usize = admitted.iter().map(|of| of[key as usize]).sum();
            if total > QUOTA {
                return Err(format!("{total} of {QUOTA} admitted for new key {key}"));
            }
        }
    }
    Ok(())
}

/// Many threads prepare and drop the limits of requests, while another thread forgets unused
/// limits.
pub(super) fn a_limit_that_is_prepared_repeatedly_has_one_counter<S: Subject>() -> Checked {
    const QUOTA: u64 = 3;
    const LIMITS: u64 = 200;
    let store = still::<S>();
    let admitted = on_threads(3, |index| {
        let mut admitted = vec![0_u64; LIMITS as usize];
        for n in 0..5 * LIMITS {
            if index == 2 {
                store.sweep();
                continue;
            }
            let text = format!("{QUOTA}/hour name={}", n % LIMITS);
            let of_request: Limiter<S> = limiter(&store, &text);
            admitted[(n % LIMITS) as usize] += u64::from(of_request.hit("key").allowed());
        }
        admitted
    });
    let wrong = |n: &usize| admitted.iter().map(|of| of[*n]).sum::<u64>() != QUOTA;
    let wrong = (0..LIMITS as usize).filter(wrong).count();
    expect_equal("limits that did not admit their quota", wrong, 0)
}
