//! The bound on keys: known keys stay exact, unknown ones share one state, and no key gains a unit.

use std::time::Duration;

use tollgate::{ManualClock, Source};

use super::several::together;
use super::{HOUR, START, Settings, Subject, admitted, limiter, limiters};

fn bounded<S: Subject>(max_keys: usize) -> (S, ManualClock) {
    let clock = ManualClock::new(START);
    (S::build(Settings { max_keys, ..Settings::new(clock.clone()) }), clock)
}

const ROOM: u64 = 10;

/// A limiter of each algorithm, each on a separate store filled with the keys `0..ROOM`, one hit
/// each.
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

pub(super) fn known_keys_stay_exact_and_unknown_ones_share_one_state<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        for key in 100..103 {
            let hit = limited.hit(key);
            assert_eq!((hit.allowed(), hit.source()), (true, Source::Overflow), "{key}");
            assert_eq!(hit.used(), key - 99, "{}: together", limited.limits()[0]);
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

pub(super) fn a_hit_denied_at_the_bound_says_so<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        assert_eq!(admitted(limited, "newcomer", 5), 3, "{}", limited.limits()[0]);
        assert_eq!(limited.hit("other").source(), Source::Overflow, "{}", limited.limits()[0]);
        assert_eq!(limited.peek(0).source(), Source::Store, "{}", limited.limits()[0]);
        assert_eq!(store.hits_at_the_bound(), 6, "{}: denied hits count", limited.limits()[0]);
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

pub(super) fn endless_fresh_keys_neither_grow_the_store_nor_push_others_out<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, clock| {
        let mut gained = 0;
        for key in 1_000..6_000 {
            gained += usize::from(limited.hit(key).allowed());
            if key % 1_000 == 0 {
                store.sweep();
                clock.advance(Duration::from_micros(1));
            }
        }
        assert_eq!(gained, 3, "{}", limited.limits()[0]);
        assert_eq!(store.entries(), ROOM as usize, "{}", limited.limits()[0]);
        for key in 0..ROOM {
            assert_eq!(limited.usage(key), 1, "{}: an honest key", limited.limits()[0]);
            assert_eq!(admitted(limited, key, 5), 2, "{}: an honest key", limited.limits()[0]);
        }
    });
}

pub(super) fn a_new_key_starts_from_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        assert!(limited.hit_n("attacker", 2).allowed());
        assert!(limited.reset(0));
        store.sweep();
        assert_eq!(store.entries(), ROOM as usize - 1, "a slot is free");
        assert_eq!(limited.peek("attacker").used(), 2, "{}: as a hit would", limited.limits()[0]);
        let hit = limited.hit("attacker");
        assert_eq!((hit.used(), hit.source()), (3, Source::Store), "{}", limited.limits()[0]);
        assert!(
            !limited.hit("attacker").allowed(),
            "{}: a slot gives no unit",
            limited.limits()[0]
        );
        assert_eq!(store.entries(), ROOM as usize);
    });
}

pub(super) fn a_clean_gives_room_to_new_keys<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, clock| {
        assert_eq!(admitted(limited, "newcomer", 5), 3);
        clock.advance(2 * HOUR);
        assert_eq!(store.sweep(), ROOM as usize, "{}", limited.limits()[0]);
        let hit = limited.hit("newcomer");
        assert_eq!((hit.used(), hit.source()), (1, Source::Store), "{}", limited.limits()[0]);
        assert_eq!(store.entries(), 1);
    });
}

pub(super) fn a_peek_ahead_of_time_leaves_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(3, |store, limited, _| {
        assert_eq!(admitted(limited, "newcomer", 5), 3, "{}", limited.limits()[0]);
        assert!(limited.at(START + 10 * HOUR).peek("other").allowed(), "{}", limited.limits()[0]);
        assert!(!limited.hit("third").allowed(), "{}: was looked at only", limited.limits()[0]);
        assert!(limited.reset(0));
        store.sweep();
        assert!(!limited.hit("fourth").allowed(), "{}: with a slot", limited.limits()[0]);
    });
}

/// The slot is found without a call of `clean`, and although nearly all other slots are in use.
pub(super) fn a_stale_slot_goes_to_a_new_key_in_time<S: Subject>() {
    let clock = ManualClock::new(START);
    let settings = Settings { max_keys: ROOM as usize, ..Settings::new(clock.clone()) };
    let store = S::build(Settings { clean_period: HOUR / 6, ..settings });
    let limited = limiter(&store, "10000/hour");
    assert!(limited.hit("brief").allowed());
    for key in 1..ROOM {
        assert!(limited.hit_n(key, 9_000).allowed());
    }
    assert_eq!(limited.hit("newcomer").source(), Source::Overflow);
    clock.advance(HOUR / 3);
    let has_slot = |_| limited.hit("newcomer").source() == Source::Store;
    assert!((0..3_000).any(has_slot), "the slot of the brief one has been free for long");
    assert!((1..ROOM).all(|key| limited.usage(key) > 1), "known keys stay");
}

pub(super) fn the_shared_state_is_one_for_each_limit<S: Subject>() {
    let (store, _) = bounded::<S>(1);
    let (first, second) = (limiter(&store, "1/hour"), limiter(&store, "2/hour"));
    assert!(first.hit("known").allowed());
    assert!(first.hit("a").allowed());
    assert!(!first.hit("b").allowed());
    assert!(second.hit("a").allowed());
    assert!(second.hit("b").allowed());
    assert!(!second.hit("known").allowed(), "known to the other limit only");
    first.clear();
    assert_eq!(store.entries(), 0);
    assert_eq!(first.hit("a").source(), Source::Store);
    assert!(!first.hit("a").allowed());
}

pub(super) fn a_refund_reaches_the_shared_state<S: Subject>() {
    for_each_full_store::<S>(1, |_, limited, _| {
        let hit = limited.hit("newcomer");
        assert_eq!((hit.allowed(), hit.source()), (true, Source::Overflow));
        assert_eq!(limited.refund("newcomer", &hit).used(), 0, "{}", limited.limits()[0]);
        assert!(limited.hit("another").allowed(), "{}: was given back", limited.limits()[0]);
    });
}

pub(super) fn a_refused_group_leaves_the_shared_state_as_it_was<S: Subject>() {
    for_each_full_store::<S>(1, |_, limited, _| {
        let both = together(&[limited.item("a", 1), limited.item("b", 1)]);
        assert!(!both.allowed(), "{}: one state cannot take both", limited.limits()[0]);
        assert!(limited.hit("c").allowed(), "{}: none was charged", limited.limits()[0]);
        assert!(!limited.hit("d").allowed(), "{}", limited.limits()[0]);
    });
}

/// Limits that come with requests are prepared and dropped repeatedly.
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
