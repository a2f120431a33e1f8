//! Several limits and several keys: all are charged or none is.

use tollgate::shared::hit_all_shared;
use tollgate::{Decision, ErrorKind, Outcome, Tagged};

use crate::ground::{Ground, HOUR, START, limit};
use crate::subject::Subject;

/// Twenty keys in one call: all pass, or one denies and none is charged.
pub fn all_keys_are_charged_or_none<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for limited in ground.of_all(3, HOUR) {
        let limit = limited.limit();
        // More keys than a policy has limits, with one tag so that every store can decide them
        // together.
        let keys: Vec<_> = (0..20).map(|n| Tagged("tag", n)).collect();
        let all = |cost| {
            let items: Vec<_> = keys.iter().map(|key| limited.inner.item(key, cost)).collect();
            limited.must(hit_all_shared(&items, Some(START)))
        };
        assert!(all(2).allowed(), "{limit}");
        let refused = all(2);
        assert!(!refused.allowed() && refused.outcomes().len() == keys.len(), "{limit}");
        let _ = limited.hit(START, keys[19]);
        let refused = all(1);
        let alone: Vec<bool> = refused.outcomes().iter().map(Outcome::allowed).collect();
        assert_eq!(alone, (0..20).map(|n| n < 19).collect::<Vec<_>>(), "{limit}");
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(limited.usage(START, key), if n == 19 { 3 } else { 2 }, "{limit} {key:?}");
        }
    }
}

/// A policy charges each of its limits once, or none. The wait is the longest of the denials.
pub fn a_policy_charges_each_limit_once_or_none<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let texts = [
        "3/hour; 5/day",
        "5/day fixed-window-per-key; 3/hour fixed-window-per-key",
        "3/hour sliding-window; 5/day token-bucket; 9/day leaky-bucket",
        "3/hour moving-window; 5/day moving-window",
        "3/day fixed-window; 5/day elastic-window; 100/second",
    ];
    for text in texts {
        let policy: tollgate::Policy = text.parse().expect(text);
        let Some(limiter) = ground.policy(&policy) else { continue };
        let at = limiter.at(START);
        let hit = |cost| {
            let hit = ground.run(at.hit_n("key", cost));
            hit.unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let count = policy.limits().len();
        for n in 1..=3 {
            let passed = hit(1);
            assert!(passed.allowed(), "{text}: hit {n}");
            let used: Vec<u64> = passed.outcomes().iter().map(Outcome::used).collect();
            assert_eq!(used, vec![n; count], "{text}: hit {n}");
        }
        for cost in [1, 2, 1_000] {
            let refused = hit(cost);
            assert!(!refused.allowed(), "{text}: cost {cost}");
            let used: Vec<u64> = refused.outcomes().iter().map(Outcome::used).collect();
            assert_eq!(used, vec![3; count], "{text}: refused at cost {cost}");
            assert!(refused.receipts().all(|receipt| receipt.units == 0), "{text}");
            let refusing = refused.outcomes().iter().filter(|outcome| !outcome.allowed());
            let wait = |outcome: &Outcome| outcome.retry_after().map_or((1, HOUR), |w| (0, w));
            let longest = refusing.map(wait).max().expect("one refuses");
            assert_eq!(wait(refused.headline()), longest, "{text}: cost {cost}");
        }
        // A refund gives the units back in all limits.
        let answer = ground.run(async {
            at.reset("key").await?;
            let charged = at.hit_n("key", 2).await?;
            at.refund("key", &charged).await
        });
        let given_back = answer.unwrap_or_else(|error| panic!("{text}: {error}"));
        let used: Vec<u64> = given_back.outcomes().iter().map(Outcome::used).collect();
        assert_eq!(used, vec![0; count], "{text}: refunded");
    }
}

/// In a denied policy or group the limits that charge denied hits are charged all the same,
/// whichever limit denied; the others are not.
pub fn a_denial_charges_the_limits_that_charge_denied<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for algorithm in ["fixed-window", "fixed-window-per-key", "elastic-window"] {
        let text = format!("9/hour {algorithm} charge-denied; 1/day; 5/hour {algorithm}");
        let Some(several) = ground.policy(&text.parse().expect("a policy")) else { continue };
        let at = several.at(START);
        let used_by = |cost| {
            let decision = ground.run(at.hit_n(algorithm, cost));
            let decision = decision.unwrap_or_else(|error| panic!("{text}: {error}"));
            decision.outcomes().iter().map(Outcome::used).collect::<Vec<u64>>()
        };
        assert_eq!(used_by(1), [1, 1, 1], "{text}");
        assert_eq!(used_by(2), [3, 1, 1], "{text}");
        assert_eq!(used_by(20), [23, 1, 1], "{text}");

        let text = format!("2/hour {algorithm} charge-denied");
        let Some(alone) = ground.limited(&limit(&text)) else { continue };
        assert_eq!(alone.admitted(START, algorithm, 5), 2, "{text}");
        assert_eq!(alone.usage(START, algorithm), 5, "{text}");
    }
}

/// Many keys in one call are hit independently, also a key that appears twice.
pub fn many_keys_are_hit_independently<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    for limited in ground.of_all(2, HOUR) {
        let limit = limited.limit();
        let keys: Vec<u64> = (0..40).map(|n| n % 15).collect();
        let decisions = limited.must(limited.inner.at(START).hit_each(&keys));
        let allowed: Vec<bool> = decisions.iter().map(Decision::allowed).collect();
        assert_eq!(allowed, (0..40).map(|n| n < 30).collect::<Vec<_>>(), "{limit}");
        let none: [u64; 0] = [];
        assert!(limited.must(limited.inner.at(START).hit_each(&none)).is_empty(), "{limit}");
    }
}

/// An empty list, the same key of one limit twice and limiters of two stores are errors of the
/// call, and nothing is charged.
pub fn invalid_requests_are_errors<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let one = ground.limited(&limit("9/hour name=a"));
    let renamed = ground.limited(&limit("8/hour name=a"));
    let (Some(one), Some(renamed)) = (one, renamed) else { return };
    let key = Tagged("tag", "key");
    let item = || one.inner.item(key, 1);
    let other = || one.inner.item(Tagged("tag", "other"), 1);
    for items in [vec![], vec![item(), item()], vec![item(), other(), renamed.inner.item(key, 2)]] {
        let error = ground.run(hit_all_shared(&items, Some(START))).expect_err("no sense");
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
    }
    assert_eq!(one.usage(START, key), 0, "nothing was charged");
    // Similar calls that are valid: through another handle, and two keys that only look alike.
    let again = ground.within("").limited(&limit("9/day")).expect("held by every store");
    assert!(one.store_is_that_of(&again), "a clone of a handle must know it");
    let items = [item(), one.inner.item(Tagged("tag", ("key", "")), 1), again.inner.item(key, 1)];
    assert!(one.must(hit_all_shared(&items, Some(START))).allowed());
}
