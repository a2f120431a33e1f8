//! Checks of policies and of hits on several keys by several threads: no limit is exceeded, no
//! thread deadlocks, and a denied group charges nothing.

use tollgate::hit_all;

use super::{Checked, expect_equal, on_threads, still};
use crate::stores::{HOUR, Subject, limiters, policy};

pub(super) fn policies_never_exceed_any_of_their_limits<S: Subject>() -> Checked {
    let store = still::<S>();
    for key in 0..20_u64 {
        let (narrow_first, narrow_last) = (
            policy(&store, "30/hour; 50/day fixed-window; 90/day token-bucket"),
            policy(&store, "90/day token-bucket; 60/day sliding-window; 50/day fixed-window"),
        );
        let admitted = on_threads(3, |index| {
            let own = if index == 0 { &narrow_first } else { &narrow_last };
            (0..60).filter(|_| own.hit(key).allowed()).count() as u64
        });
        let (first, last) = (admitted[0], admitted[1] + admitted[2]);
        let peeks = [narrow_first.peek(key), narrow_last.peek(key)];
        let outcomes = peeks.iter().flat_map(tollgate::Decision::outcomes);
        let used: Vec<u64> = outcomes.map(tollgate::Outcome::used).collect();
        let all = first + last;
        expect_equal("used by policies", used, vec![first, all, all, all, last, all])?;
        if first > 30 || all > 50 {
            return Err(format!("{first} admitted of 30 and {all} of 50"));
        }
        // If a denied hit had left units charged, fewer hits would be admitted now.
        let rest = (0..100).filter(|_| narrow_last.hit(key).allowed()).count() as u64;
        expect_equal("admitted by policies in the end", all + rest, 50)?;
    }
    Ok(())
}

pub(super) fn groups_in_different_orders_never_exceed_a_limit<S: Subject>() -> Checked {
    const QUOTA: u64 = 200;
    let store = still::<S>();
    for limited in limiters(&store, QUOTA, HOUR) {
        let orders = [[1_u64, 2, 3], [3, 2, 1], [2, 3, 1]];
        let admitted = on_threads(3, |index| {
            let mut passed = 0;
            for n in 0..QUOTA {
                let of = |key: &u64| limited.item(*key, 1);
                let items: Vec<_> = orders[index].iter().map(of).collect();
                passed += u64::from(hit_all(&items).is_ok_and(|all| all.allowed()));
                // Hits on pairs and single keys are made in between.
                let pair = &items[..2];
                passed +=
                    u64::from(n % 4 == 0 && hit_all(pair).is_ok_and(|all| all.allowed())) << 32;
                passed += u64::from(n % 8 == 0 && limited.hit(2).allowed()) << 48;
            }
            passed
        });
        let mut wanted = [0_u64; 3];
        for (order, passed) in orders.iter().zip(admitted) {
            let (all, pairs, single) = (passed & 0xffff_ffff, passed >> 32 & 0xffff, passed >> 48);
            for (place, key) in order.iter().enumerate() {
                wanted[*key as usize - 1] += all + if place < 2 { pairs } else { 0 };
            }
            wanted[1] += single;
        }
        let used = [1_u64, 2, 3].map(|key| limited.usage(key));
        expect_equal(&format!("{}: used by groups", limited.limits()[0]), used, wanted)?;
        if used.iter().any(|used| *used > QUOTA) {
            return Err(format!("{}: {used:?} used of {QUOTA}", limited.limits()[0]));
        }
        for (key, used) in [1_u64, 2, 3].into_iter().zip(used) {
            let rest = (0..=QUOTA).filter(|_| limited.hit(key).allowed()).count() as u64;
            expect_equal("admitted in the end", used + rest, QUOTA)?;
        }
        for key in orders[0] {
            limited.reset(key);
        }
    }
    Ok(())
}
