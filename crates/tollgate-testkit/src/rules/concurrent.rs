//! Exact totals under concurrent callers: threads with their own handles, each with several calls
//! in flight.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tollgate::shared::hit_all_shared;
use tollgate::{Key, Policy, Tagged};

use crate::executor::all;
use crate::ground::{Ground, Limited, START, YEAR, on_threads};
use crate::subject::Subject;

const THREADS: usize = 3;

/// Calls that each thread has in flight.
const IN_FLIGHT: u64 = 8;

/// How many of `tries` hits pass, [`IN_FLIGHT`] of them at a time.
pub(super) fn admitted_together<S: Subject>(
    limited: &Limited<'_, S>,
    key: impl Key,
    tries: u64,
) -> u64 {
    let (at, key) = (limited.inner.at(START), &key);
    let mut admitted = 0;
    for begun in (0..tries).step_by(IN_FLIGHT as usize) {
        let count = (tries - begun).min(IN_FLIGHT);
        for hit in limited.subject.block_on(all((0..count).map(|_| at.hit(key)))) {
            admitted += u64::from(hit.unwrap_or_else(|error| panic!("{error}")).allowed());
        }
    }
    admitted
}

/// Many callers on one key: exactly the limit passes, and afterwards exactly that is in use.
pub fn concurrent_callers_admit_exactly_the_limit<S: Subject>(subject: &S) {
    const QUOTA: u64 = 150;
    let ground = Ground::new(subject);
    for limited in ground.of_all(QUOTA, YEAR) {
        let limit = limited.limit();
        let admitted = on_threads(THREADS, |_| {
            let own = ground.again().limited(limit).expect("held a moment ago");
            admitted_together(&own, "key", QUOTA)
        });
        assert_eq!(admitted.iter().sum::<u64>(), QUOTA, "{limit}: admitted");
        assert_eq!(limited.usage(START, "key"), QUOTA, "{limit}: in use");
    }
}

/// Lets two threads start each group of keys together.
struct InStep(AtomicUsize);

impl InStep {
    fn at(&self, group: usize) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < 2 * (group + 1) {
            std::thread::yield_now();
        }
    }
}

/// Two callers on each of many fresh keys with a limit of one: exactly one of them passes.
pub fn fresh_keys_admit_exactly_one<S: Subject>(subject: &S) {
    const GROUPS: usize = 25;
    const KEYS: usize = 8;
    let ground = Ground::new(subject);
    for limited in ground.of_all(1, YEAR) {
        let limit = limited.limit();
        let step = InStep(AtomicUsize::new(0));
        let admitted = on_threads(2, |_| {
            let own = ground.again().limited(limit).expect("held a moment ago");
            let at = own.inner.at(START);
            let mut admitted = Vec::new();
            for group in 0..GROUPS {
                step.at(group);
                let hits = (0..KEYS).map(|key| at.hit((group, key)));
                for hit in own.subject.block_on(all(hits)) {
                    admitted.push(hit.unwrap_or_else(|error| panic!("{error}")).allowed());
                }
            }
            admitted
        });
        let wrong = admitted[0].iter().zip(&admitted[1]).filter(|(a, b)| a == b).count();
        assert_eq!(wrong, 0, "{limit}: keys not admitted exactly once");
    }
}

/// Callers that take as much as fits get exactly the limit together.
pub fn takes_share_out_exactly_the_limit<S: Subject>(subject: &S) {
    const QUOTA: u64 = 200;
    let ground = Ground::new(subject);
    for limited in ground.of_all(QUOTA, YEAR) {
        let limit = limited.limit();
        let taken = on_threads(THREADS, |index| {
            let own = ground.again().limited(limit).expect("held a moment ago");
            let at = own.inner.at(START);
            let takes = (0..60).map(|_| at.take("key", 3 + index as u64));
            let takes = own.subject.block_on(all(takes));
            let charged = |take: Result<tollgate::Decision, _>| match take {
                Ok(take) => take.charged(),
                Err(error) => panic!("{error}"),
            };
            takes.into_iter().map(charged).sum::<u64>()
        });
        assert_eq!(taken.iter().sum::<u64>(), QUOTA, "{limit}: shared out");
    }
}

/// Callers that hit and give back: never more than the limit is held at any moment, and nothing is
/// in use at the end.
pub fn refunds_amid_hits_leave_an_exact_count<S: Subject>(subject: &S) {
    // A quota below the number of threads, so that two threads can be wrong at the same time.
    const QUOTA: u64 = 1;
    let ground = Ground::new(subject);
    for limited in ground.of_all(QUOTA, YEAR) {
        let limit = limited.limit();
        let held = AtomicI64::new(0);
        let most = on_threads(THREADS, |_| {
            let own = ground.again().limited(limit).expect("held a moment ago");
            let mut most = 0;
            for _ in 0..60 {
                let hit = own.hit(START, "key");
                if hit.allowed() {
                    // Counted from after the charge until before the refund, so it is never above
                    // what is charged.
                    most = most.max(held.fetch_add(1, Ordering::SeqCst) + 1);
                    std::thread::yield_now();
                    held.fetch_sub(1, Ordering::SeqCst);
                    let _ = own.refund(START, "key", &hit.receipt());
                }
            }
            most
        });
        let most = most.into_iter().max().unwrap_or_default();
        assert!(most <= QUOTA as i64, "{limit}: {most} held at once");
        assert_eq!(limited.usage(START, "key"), 0, "{limit}: in use after all refunds");
    }
}

/// Callers of policies with common limits: no limit is exceeded, each counts what was admitted, and
/// units of a denied hit are given back.
pub fn concurrent_policies_never_pass_a_limit<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let policy = |text: &str| text.parse::<Policy>().expect(text);
    let narrow_first = policy("30/365 days; 50/365 days fixed-window; 90/365 days token-bucket");
    let sliding = crate::ground::limit("60/365 days sliding-window");
    let narrow_last = if subject.refuses(&sliding) {
        policy("90/365 days token-bucket; 60/365 days; 50/365 days fixed-window")
    } else {
        policy("90/365 days token-bucket; 60/365 days sliding-window; 50/365 days fixed-window")
    };
    for key in 0..4_u64 {
        let admitted = on_threads(THREADS, |index| {
            let own = if index == 0 { &narrow_first } else { &narrow_last };
            let own = ground.again().policy(own).expect("held by every store");
            let at = own.at(START);
            let hits = ground.run(all((0..60).map(|_| at.hit(key))));
            let passed = |hit: Result<tollgate::Decision, _>| match hit {
                Ok(hit) => u64::from(hit.allowed()),
                Err(error) => panic!("{error}"),
            };
            hits.into_iter().map(passed).sum::<u64>()
        });
        let (first, all) = (admitted[0], admitted.iter().sum::<u64>());
        assert!(first <= 30 && all <= 50, "{first} admitted of 30, {all} of 50");
        let used = |policy: &Policy| {
            let limiter = ground.policy(policy).expect("held by every store");
            let seen = ground.run(limiter.at(START).peek_n(key, 1));
            let seen = seen.unwrap_or_else(|error| panic!("{error}"));
            seen.outcomes().iter().map(tollgate::Outcome::used).collect::<Vec<_>>()
        };
        assert_eq!(used(&narrow_first), [first, all, all], "in use");
        assert_eq!(used(&narrow_last), [all, all - first, all], "in use");
        let rest = ground.policy(&narrow_last).expect("held by every store");
        let hits = ground.run(async {
            let mut passed = 0;
            for _ in 0..60 {
                passed += u64::from(rest.at(START).hit(key).await?.allowed());
            }
            Ok::<u64, tollgate::Error>(passed)
        });
        assert_eq!(all + hits.unwrap_or_else(|error| panic!("{error}")), 50, "in the end");
    }
}

/// Groups of keys in different orders, with single hits between: no limit is exceeded, and a denied
/// group leaves nothing charged.
pub fn concurrent_groups_never_pass_a_limit<S: Subject>(subject: &S) {
    const QUOTA: u64 = 60;
    const ORDERS: [[u64; 3]; THREADS] = [[1, 2, 3], [3, 2, 1], [2, 3, 1]];
    let ground = Ground::new(subject);
    for limited in ground.of_all(QUOTA, YEAR) {
        let limit = limited.limit();
        let counts = on_threads(THREADS, |index| {
            let own = ground.again().limited(limit).expect("held a moment ago");
            let of = |key: &u64| own.inner.item(Tagged("tag", *key), 1);
            let items: Vec<_> = ORDERS[index].iter().map(of).collect();
            let mut used = [0_u64; 3];
            for n in 0..QUOTA {
                // Pairs and single hits come between.
                let group = if n % 4 == 0 { &items[..2] } else { &items[..] };
                let passed = own.must(hit_all_shared(group, Some(START))).allowed();
                for key in ORDERS[index].iter().take(group.len()) {
                    used[*key as usize - 1] += u64::from(passed);
                }
                if n % 8 == 0 {
                    used[1] += u64::from(own.hit(START, Tagged("tag", 2)).allowed());
                }
            }
            used
        });
        for key in 1..=3_u64 {
            let counted: u64 = counts.iter().map(|used| used[key as usize - 1]).sum();
            let used = limited.usage(START, Tagged("tag", key));
            assert_eq!(used, counted, "{limit}: in use by groups, key {key}");
            assert!(used <= QUOTA, "{limit}: {used} used of {QUOTA}");
            let rest = limited.admitted(START, Tagged("tag", key), QUOTA - used + 2);
            assert_eq!(used + rest, QUOTA, "{limit}: in the end, key {key}");
        }
    }
}
