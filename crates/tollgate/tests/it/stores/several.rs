//! Tests of hits on several limits and keys, of which all are charged or none, and of calls that
//! clear many keys.

use std::time::Duration;

use tollgate::together::Item;
use tollgate::{Decision, ErrorKind, Limiter, Outcome, Store, hit_all};

use super::{HOUR, Subject, limiter, limiters, policy, store};

/// Hits all items, which are valid.
pub(super) fn together<S: Store>(items: &[Item<'_, S>]) -> Decision {
    hit_all(items).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn invalid_requests_are_errors<S: Subject>() {
    let (store, _) = store::<S>();
    let (other, _) = super::store::<S>();
    let one = limiter(&store, "9/hour name=a");
    let many = policy(&store, "9/hour name=a; 9/day");
    let none: [Item<'_, S>; 0] = [];
    let renamed = limiter(&store, "8/hour name=a");
    let elsewhere = limiter(&other, "9/hour name=a");
    let table = [
        (hit_all(&none), "0 items: an all-or-nothing hit needs at least one"),
        (
            hit_all(&[one.item("k", 1), one.item("k", 2)]),
            "key k twice for one limit: an all-or-nothing hit may contain it only once",
        ),
        (
            hit_all(&[one.item("k", 1), one.item("j", 1), renamed.item("k", 1)]),
            "key k twice for one limit: an all-or-nothing hit may contain it only once",
        ),
        (
            hit_all(&[many.item(("k", 7), 1), one.item(("k", 7), 1)]),
            "key k / 7 twice for one limit: an all-or-nothing hit may contain it only once",
        ),
        (
            hit_all(&[one.item("k", 1), elsewhere.item("k", 1)]),
            "item 1: belongs to another store than item 0; an all-or-nothing hit decides within one store",
        ),
    ];
    for (result, message) in table {
        let error = result.expect_err(message);
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Request, message));
    }
    assert_eq!((store.entries(), other.entries()), (0, 0), "no key was charged");
    // Similar calls are valid: the same key under two limits, and two keys that only look alike.
    let daily = limiter(&store, "9/day");
    assert!(together(&[one.item("k", 1), daily.item("k", 1)]).allowed());
    assert!(together(&[one.item("7", 1), one.item(("7", ""), 1)]).allowed());
    let clone = store.clone();
    let on_clone = limiter(&clone, "9/day");
    assert!(together(&[one.item("k", 1), on_clone.item("k", 1)]).allowed());
}

pub(super) fn all_are_charged_or_none<S: Subject>() {
    let (store, _) = store::<S>();
    for limited in limiters(&store, 3, HOUR) {
        // There are more keys than a policy may have limits.
        let keys: Vec<String> = (0..20).map(|n| format!("key {n}")).collect();
        let items = |cost| -> Vec<_> { keys.iter().map(|key| limited.item(key, cost)).collect() };
        let algorithm = limited.limits()[0].algorithm();
        assert!(together(&items(2)).allowed(), "{algorithm:?}");
        let refused = together(&items(2));
        assert!(!refused.allowed() && refused.outcomes().len() == keys.len(), "{algorithm:?}");
        let _ = limited.hit("key 19");
        let refused = together(&items(1));
        let alone: Vec<bool> = refused.outcomes().iter().map(Outcome::allowed).collect();
        assert_eq!(alone, (0..20).map(|n| n < 19).collect::<Vec<_>>(), "{algorithm:?}");
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(limited.usage(key), if n == 19 { 3 } else { 2 }, "{algorithm:?} {key}");
        }
    }
}

pub(super) fn the_wait_of_a_group_is_the_longest_wait<S: Subject>() {
    let (store, _) = store::<S>();
    let (hourly, daily) = (limiter(&store, "1/hour"), limiter(&store, "1/day"));
    let both = |cost| together(&[daily.item("d", 1), hourly.item("h", cost)]);
    assert_eq!(both(1).retry_after(), Some(Duration::ZERO));
    assert_eq!(both(1).retry_after(), Some(24 * HOUR));
    daily.clear();
    assert_eq!(both(1).retry_after(), Some(HOUR));
    assert_eq!(both(2).retry_after(), None, "a cost that never fits has no wait");

    let several =
        policy(&store, "1/hour fixed-window-per-key; 1/day fixed-window-per-key; 9/second");
    assert!(several.hit("key").allowed());
    let refused = several.hit("key");
    assert_eq!(refused.retry_after(), Some(24 * HOUR));
    assert_eq!(refused.headline().reset_after(), 24 * HOUR);
    assert_eq!(
        refused.outcomes().iter().map(Outcome::allowed).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(several.hit_n("key", 2).retry_after(), None);
}

pub(super) fn a_denial_charges_the_limits_that_charge_denied<S: Subject>() {
    let (store, _) = store::<S>();
    let counted = ["fixed-window", "fixed-window-per-key", "elastic-window"];
    for (n, algorithm) in counted.into_iter().enumerate() {
        let text = format!("9/hour {algorithm} charge-denied; 1/day; 5/hour {algorithm}");
        let several = policy(&store, &text);
        let used = || used(&several.peek(n));
        assert!(several.hit(n).allowed());
        let refused = several.hit_n(n, 2);
        assert!(!refused.allowed());
        let charged: Vec<u64> = refused.receipts().map(|receipt| receipt.units).collect();
        assert_eq!((charged, used()), (vec![2, 0, 0], vec![3, 1, 1]), "{text}");
        // The limit that charges denied hits is charged if any limit denies, even if it denies the
        // hit itself.
        assert!(!several.hit_n(n, 20).allowed());
        assert_eq!(used(), [23, 1, 1], "{text}");

        let limit = format!("2/hour {algorithm} charge-denied");
        let alone = limiter(&store, &limit);
        let passed = (0..5).filter(|_| alone.hit(n).allowed()).count();
        assert_eq!((passed, alone.usage(n)), (2, 5), "{limit}");
        let other = limiter(&store, "1/hour name=other");
        let both = || together(&[other.item(n, 1), alone.item(n + 100, 1)]).allowed();
        assert_eq!([both(), both(), both()], [true, false, false]);
        assert_eq!((other.usage(n), alone.usage(n + 100)), (1, 3), "{limit}");
    }
}

pub(super) fn a_denial_extends_only_open_elastic_windows<S: Subject>() {
    let (store, clock) = store::<S>();
    let several = policy(&store, "9/10 seconds elastic-window; 1/hour");
    let elastic = limiter(&store, "9/10 seconds elastic-window");
    assert!(several.hit("key").allowed());
    clock.advance(Duration::from_secs(6));
    assert!(!several.hit("key").allowed(), "the hourly limit denies the hit");
    assert_eq!(elastic.usage("key"), 1);
    clock.advance(Duration::from_secs(6));
    assert_eq!(elastic.usage("key"), 1, "the denied hit has extended the window");
    clock.advance(Duration::from_secs(4));
    assert_eq!(elastic.usage("key"), 0);
    assert!(!several.hit("key").allowed());
    assert_eq!(elastic.peek("key").expires_at(), None, "a denied hit opens no window");
    assert!(several.peek("key").outcomes()[0].allowed());
}

pub(super) fn peeks_and_denied_hits_create_no_entry<S: Subject>() {
    let (store, _) = store::<S>();
    for limited in limiters(&store, 3, HOUR) {
        assert!(limited.peek("key").allowed());
        assert_eq!(limited.usage("key"), 0);
        assert!(!limited.hit_n("key", 4).allowed());
        assert!(limited.hit_n("key", 0).allowed());
        assert_eq!(limited.take("key", 0).charged(), 0);
        assert_eq!(limited.refund_n("key", 5).used(), 0);
        let receipt = tollgate::Receipt {
            units: 2,
            at: super::START,
            mark: 0,
            source: tollgate::Source::Store,
        };
        assert_eq!(limited.refund_receipts("key", &[receipt]).used(), 0);
        assert!(!limited.reset("key"));
        limited.hit_each(&["a", "b"][..0], |_, _| {});
        assert!(!together(&[limited.item("a", 1), limited.item("b", 4)]).allowed());
    }
    let several = policy(&store, "9/hour; 2/day");
    assert!(several.peek("key").allowed());
    assert!(!several.hit_n("key", 3).allowed());
    assert_eq!(store.entries(), 0);
}

pub(super) fn clear_forgets_the_keys_of_one_limit<S: Subject>() {
    let (store, _) = store::<S>();
    let all = limiters(&store, 1, HOUR);
    for limited in &all {
        (0..100).for_each(|key| assert!(limited.hit(key).allowed()));
    }
    assert_eq!(store.entries(), 100 * all.len());
    for (n, limited) in all.iter().enumerate() {
        limited.clear();
        for (m, other) in all.iter().enumerate() {
            assert_eq!(other.usage(7), u64::from(m > n), "{:?}", other.limits()[0]);
        }
    }
    all.iter().for_each(|limited| assert!(limited.hit(7).allowed()));
    let several = policy(&store, "1/hour name=a; 1/day");
    assert!(several.hit("key").allowed());
    several.clear();
    assert!(several.hit("key").allowed());
}

pub(super) fn clear_namespace_forgets_the_limits_of_one_namespace<S: Subject>() {
    let (store, _) = store::<S>();
    let on = |namespace, limit| Limiter::new(&store, namespace, limit).expect(limit);
    let cleared =
        [on("a", "1/hour"), on("a", "1/day fixed-window"), on("a", "1/day sliding-window")];
    let kept = [on("", "1/hour"), on("b", "1/hour"), on("a\0", "1/hour")];
    for limited in cleared.iter().chain(&kept) {
        (0..10).for_each(|key| assert!(limited.hit(key).allowed()));
    }
    store.forget_namespace("a");
    cleared.iter().for_each(|limited| assert!(limited.hit(3).allowed()));
    kept.iter().for_each(|limited| assert!(!limited.hit(3).allowed()));
}

/// Returns the units in use of each limit.
fn used(decision: &Decision) -> Vec<u64> {
    decision.outcomes().iter().map(Outcome::used).collect()
}
