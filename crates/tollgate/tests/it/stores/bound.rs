//! Tests of the bound on keys: known keys keep exact states, unknown keys share one state, and no
//! key gets additional units.

use std::time::Duration;

use tollgate::{ManualClock, Source};

use super::several::together;
use super::{HOUR, START, Settings, Subject, admitted, limiter, limiters};

fn bounded<S: Subject>(max_keys: usize) -> (S, ManualClock) {
    let clock = ManualClock::new(START);
    (S::build(Settings { max_keys, ..Settings::new(clock.clone()) }), clock)
}

const ROOM: u64 = 10;

/// Runs `check` on a limiter of each algorithm, each on a separate store that is filled with the
/// keys `0..ROOM`, each of which was hit once.
fn for_each_full_store<S: Subject>(
    quota: u64,
    check: impl Fn(&S, &tollgate::Limiter<S>, &ManualClock),
) {
    let (store, _) = bounded::<S>(0);
    for n in 0..limiters(&store, quota, HOUR).len() {
        let (store, clock) = bounded::<S>(ROOM as usize);
        let limited = limiters(&store, quota, HOUR).swap_remove(n);
        for key in 0..ROOM {
            let hit = limited.hit(key);
            assert_eq!((hit.allowed(), hit.source()), (true, Source::Store));
        }
        assert_eq!((store.entries(), store.hits_at_the_bound()), (ROOM as usize, 0));
        check(&store, &limited, &clock);
    }
}

pub(super) fn known_keys_keep_exact_states_and_unknown_keys_share_one<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        for key in 100..103 {
            let hit = limited.hit(key);
            assert_eq!((hit.allowed(), hit.source()), (true, Source::Overflow), "{key}");
            assert_eq!(
                hit.used(),
                key - 99,
                "{}: the unknown keys share a state",
                limited.limits()[0]
            );
        }
        assert!(!limited.hit(200).allowed(), "{}", limited.limits()[0]);
        for key in 0..ROOM {
            let hit = limited.hit(key);
            assert_eq!((hit.used(), hit.source()), (2, Source::Store), "{}", limited.limits()[0]);
        }
        assert_eq!(store.entries(), ROOM as usize);
        assert!(store.hits_at_the_bound() >= 3);
    });
}

pub(super) fn a_denied_hit_at_the_bound_has_the_source_overflow<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        assert_eq!(admitted(limited, "newcomer", 5), 3, "{}", limited.limits()[0]);
        assert_eq!(limited.hit("other").source(), Source::Overflow, "{}", limited.limits()[0]);
        assert_eq!(limited.peek(0).source(), Source::Store, "{}", limited.limits()[0]);
        assert_eq!(
            store.hits_at_the_bound(),
            6,
            "{}: denied hits are counted too",
            limited.limits()[0]
        );
    });
}

pub(super) fn a_peek_at_the_bound_shows_what_a_hit_would_get<S: Subject>() {
    for_each_full_store::<S>(3, |_, limited, _| {
        assert!(limited.hit_n("newcomer", 2).allowed(), "{}", limited.limits()[0]);
        for cost in 1..=3 {
            let peek = limited.peek_n("other", cost);
            assert_eq!(peek.used(), 2, "{}", limited.limits()[0]);
            assert_eq!(peek.allowed(), cost == 1, "{}: cost {cost}", limited.limits()[0]);
        }
        assert_eq!(limited.hit("other").used(), 3, "{}", limited.limits()[0]);
        assert!(!limited.peek("third").allowed(), "{}", limited.limits()[0]);
    });
}

pub(super) fn many_new_keys_neither_grow_the_store_nor_evict_known_keys<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, clock| {
        let mut admitted_unknown = 0;
        for key in 1_000..6_000 {
            admitted_unknown += usize::from(limited.hit(key).allowed());
            if key % 1_000 == 0 {
                store.sweep();
                clock.advance(Duration::from_micros(1));
            }
        }
        assert_eq!(admitted_unknown, 3, "{}", limited.limits()[0]);
        assert_eq!(store.entries(), ROOM as usize, "{}", limited.limits()[0]);
        for key in 0..ROOM {
            assert_eq!(limited.usage(key), 1, "{}: a known key", limited.limits()[0]);
            assert_eq!(admitted(limited, key, 5), 2, "{}: a known key", limited.limits()[0]);
        }
    });
}

pub(super) fn a_key_that_gets_a_slot_starts_with_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        assert!(limited.hit_n("attacker", 2).allowed());
        assert!(limited.reset(0));
        store.sweep();
        assert_eq!(store.entries(), ROOM as usize - 1, "a slot is free");
        assert_eq!(
            limited.peek("attacker").used(),
            2,
            "{}: a peek shows the same state as a hit",
            limited.limits()[0]
        );
        let hit = limited.hit("attacker");
        assert_eq!((hit.used(), hit.source()), (3, Source::Store), "{}", limited.limits()[0]);
        assert!(
            !limited.hit("attacker").allowed(),
            "{}: a slot brings no additional unit",
            limited.limits()[0]
        );
        assert_eq!(store.entries(), ROOM as usize);
    });
}

pub(super) fn cleaning_makes_room_for_new_keys<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, clock| {
        assert_eq!(admitted(limited, "newcomer", 5), 3);
        clock.advance(2 * HOUR);
        assert_eq!(store.sweep(), ROOM as usize, "{}", limited.limits()[0]);
        let hit = limited.hit("newcomer");
        assert_eq!((hit.used(), hit.source()), (1, Source::Store), "{}", limited.limits()[0]);
        assert_eq!(store.entries(), 1);
    });
}

pub(super) fn a_peek_at_a_future_time_does_not_change_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        assert_eq!(admitted(limited, "newcomer", 5), 3, "{}", limited.limits()[0]);
        assert!(limited.at(START + 10 * HOUR).peek("other").allowed(), "{}", limited.limits()[0]);
        assert!(
            !limited.hit("third").allowed(),
            "{}: the peek changed nothing",
            limited.limits()[0]
        );
        assert!(limited.reset(0));
        store.sweep();
        assert!(
            !limited.hit("fourth").allowed(),
            "{}: a new slot starts with the shared state",
            limited.limits()[0]
        );
    });
}

/// A new key gets the slot of an expired key although `clean` is not called and nearly all other
/// slots are in use.
pub(super) fn the_slot_of_an_expired_key_goes_to_a_new_key<S: Subject>() {
    let clock = ManualClock::new(START);
    let settings = Settings { max_keys: ROOM as usize, ..Settings::new(clock.clone()) };
    let store = S::build(Settings { clean_period: HOUR / 6, ..settings });
    let limited = limiter(&store, "10000/hour");
    assert!(limited.hit("expired").allowed());
    for key in 1..ROOM {
        assert!(limited.hit_n(key, 9_000).allowed());
    }
    assert_eq!(limited.hit("newcomer").source(), Source::Overflow);
    clock.advance(HOUR / 3);
    let has_slot = |_| limited.hit("newcomer").source() == Source::Store;
    assert!((0..3_000).any(has_slot), "the slot of the expired key is free");
    assert!((1..ROOM).all(|key| limited.usage(key) > 1), "known keys stay");
}

pub(super) fn each_limit_has_a_shared_state_of_its_own<S: Subject>() {
    let (store, _) = bounded::<S>(1);
    let (first, second) = (limiter(&store, "1/hour"), limiter(&store, "2/hour"));
    assert!(first.hit("known").allowed());
    assert!(first.hit("a").allowed());
    assert!(!first.hit("b").allowed());
    assert!(second.hit("a").allowed());
    assert!(second.hit("b").allowed());
    assert!(!second.hit("known").allowed(), "the key has an entry only under the other limit");
    first.clear();
    assert_eq!(store.entries(), 0);
    assert_eq!(first.hit("a").source(), Source::Store);
    assert!(!first.hit("a").allowed());
}

pub(super) fn a_refund_reduces_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(1, |_, limited, _| {
        let hit = limited.hit("newcomer");
        assert_eq!((hit.allowed(), hit.source()), (true, Source::Overflow));
        assert_eq!(limited.refund("newcomer", &hit).used(), 0, "{}", limited.limits()[0]);
        assert!(
            limited.hit("another").allowed(),
            "{}: the unit was given back",
            limited.limits()[0]
        );
    });
}

pub(super) fn a_denied_group_does_not_change_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(1, |_, limited, _| {
        let both = together(&[limited.item("a", 1), limited.item("b", 1)]);
        assert!(
            !both.allowed(),
            "{}: the shared state has no room for both keys",
            limited.limits()[0]
        );
        assert!(
            limited.hit("c").allowed(),
            "{}: the denied group was not charged",
            limited.limits()[0]
        );
        assert!(!limited.hit("d").allowed(), "{}", limited.limits()[0]);
    });
}

/// Limits of requests are prepared and dropped repeatedly.
pub(super) fn a_forgotten_limit_keeps_its_shared_state<S: Subject>() {
    let (store, _) = bounded::<S>(1);
    let known = limiter(&store, "1/hour name=known");
    assert!(known.hit("key").allowed());
    let mut passed = 0;
    for n in 0..5 {
        let of_request = limiter(&store, "2/hour name=request");
        passed += usize::from(of_request.hit(n).allowed());
        drop(of_request);
        store.sweep();
    }
    assert_eq!(passed, 2);
}
