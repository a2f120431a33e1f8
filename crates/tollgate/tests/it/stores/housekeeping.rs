//! Tests of cleaning by `clean` and by hits, and of the removal of unused keys by age.

use std::time::Duration;

use tollgate::{Limiter, ManualClock};

use super::allocation::live_bytes;
use super::{HOUR, START, Settings, Subject, limiter, limiters, store};

pub(super) fn cleaning_returns_the_number_of_forgotten_keys<S: Subject>() {
    let (store, clock) = store::<S>();
    let all = limiters(&store, 5, Duration::from_secs(1));
    let long = limiter(&store, "5/day");
    for limited in &all {
        (0..1_000).for_each(|key| assert!(limited.hit(key).allowed()));
    }
    (0..300).for_each(|key| assert!(long.hit(key).allowed()));
    assert_eq!(store.entries(), 1_000 * all.len() + 300);
    assert_eq!(store.sweep(), 0, "no key is fresh yet");
    clock.advance(Duration::from_secs(2));
    assert_eq!(store.sweep(), 1_000 * all.len());
    assert_eq!(store.entries(), 300);
    assert_eq!(store.sweep(), 0);
    assert!((0..300).all(|key| long.usage(key) == 1));
    clock.advance(24 * HOUR);
    assert_eq!((store.sweep(), store.entries()), (300, 0));
}

/// Returns a store with 5,000 keys of the limit `stale` and 100 keys of the limit `live`, its clock
/// one microsecond before cleaning is due, and the limiter of `live`. The keys of `stale` expire by
/// the time cleaning is due.
fn due<S: Subject>(stale: &str, live: &str) -> (S, ManualClock, Limiter<S>) {
    let clock = ManualClock::new(START);
    let store = S::build(Settings { clean_period: HOUR, ..Settings::new(clock.clone()) });
    let live = limiter(&store, live);
    (0..100).for_each(|key| assert!(live.charge(key, 100).used() > 1));
    let stale = limiter(&store, stale);
    (1_000..6_000).for_each(|key| assert!(stale.hit(key).allowed()));
    clock.advance(HOUR - Duration::from_micros(1));
    (store, clock, live)
}

/// Makes many hits, but only on known keys, so that the store does not grow.
fn hit_known_keys<S: Subject>(live: &Limiter<S>) {
    (0..100_000).for_each(|n| assert!(live.hit(n % 100).allowed(), "{n}"));
}

pub(super) fn hits_clean_when_the_period_has_passed<S: Subject>() {
    let (store, clock, live) = due::<S>("2000/hour", "2000/hour");
    hit_known_keys(&live);
    assert_eq!(store.entries(), 5_100, "cleaning was not yet due");
    clock.advance(Duration::from_micros(1));
    hit_known_keys(&live);
    assert_eq!(store.entries(), 100, "hits have cleaned");
    assert!((0..100).all(|key| live.usage(key) > 1_000), "keys in use stay");
}

pub(super) fn hits_clean_the_expired_keys_of_other_limits<S: Subject>() {
    let (store, clock, live) = due::<S>("1/second", "5000/day fixed-window-per-key");
    hit_known_keys(&live);
    assert_eq!(store.entries(), 5_100, "cleaning was not yet due");
    clock.advance(Duration::from_micros(1));
    hit_known_keys(&live);
    assert_eq!(store.entries(), 100, "hits have cleaned");
    assert!((0..100).all(|key| live.usage(key) > 1_000), "keys in use stay");
}

/// A caller may pass any time, but only the store's own clock decides when to clean.
pub(super) fn hits_at_a_future_time_do_not_stop_the_cleaning<S: Subject>() {
    let clock = ManualClock::new(START);
    let store = S::build(Settings { clean_period: HOUR, ..Settings::new(clock.clone()) });
    let limited = limiter(&store, "2000/hour");
    (1_000..6_000).for_each(|key| assert!(limited.hit(key).allowed()));
    for _ in 0..2_000 {
        let _ = limited.at(START + 10_000 * HOUR).hit("from the future");
    }
    assert_eq!(store.entries(), 5_001, "no key has expired by the store's clock");
    // The hits are made twice, because hits at a future time may already have begun the first round
    // of cleaning.
    for _ in 0..2 {
        clock.advance(2 * HOUR);
        hit_known_keys(&limited);
    }
    assert_eq!(store.entries(), 101, "hits have cleaned");
}

const AGE: Duration = Duration::from_secs(100);

fn aged<S: Subject>(age: Option<Duration>) -> (S, ManualClock) {
    let clock = ManualClock::new(START);
    (S::build(Settings { key_older_than: age, ..Settings::new(clock.clone()) }), clock)
}

/// Cleans once per second for this many seconds.
fn clean_for<S: Subject>(store: &S, clock: &ManualClock, seconds: u64, mut each: impl FnMut()) {
    for _ in 0..seconds {
        clock.advance(Duration::from_secs(1));
        each();
        store.sweep();
    }
}

pub(super) fn keys_that_were_unused_for_the_configured_age_are_forgotten<S: Subject>() {
    let (store, clock) = aged::<S>(Some(AGE));
    let all = limiters(&store, 1, 24 * HOUR);
    for limited in &all {
        assert!(limited.hit("key").allowed());
    }
    clean_for(&store, &clock, 99, || {});
    assert_eq!(store.entries(), all.len(), "the keys were used more recently than the age");
    clean_for(&store, &clock, 102, || {});
    assert_eq!(store.entries(), 0, "the keys were unused for twice the age");
    assert!(
        all.iter().all(|limited| limited.hit("key").allowed()),
        "forgotten keys are full again"
    );
}

pub(super) fn hits_forget_keys_that_were_unused_for_the_configured_age<S: Subject>() {
    let clock = ManualClock::new(START);
    let settings = Settings { clean_period: AGE / 4, ..Settings::new(clock.clone()) };
    let store = S::build(Settings { key_older_than: Some(AGE), ..settings });
    let limited = limiter(&store, "5000/day fixed-window-per-key");
    (0..3_000).for_each(|key| assert!(limited.hit((key, "unused")).allowed()));
    let used = |times| (0..times).for_each(|_| assert!(limited.hit("used").allowed()));
    for _ in 0..9 {
        used(400);
        clock.advance(AGE / 10);
    }
    assert_eq!(store.entries(), 3_001, "the keys were used more recently than the age");
    for _ in 0..30 {
        limited.reset("used");
        used(2_000);
        clock.advance(AGE / 10);
    }
    assert_eq!(store.entries(), 1, "the keys were unused for three times the age");
}

pub(super) fn keys_that_are_used_are_kept_beyond_the_configured_age<S: Subject>() {
    let (store, clock) = aged::<S>(Some(AGE));
    let all = limiters(&store, 2, 24 * HOUR);
    for limited in &all {
        assert!(limited.hit_n("denied", 2).allowed() && limited.hit("peeked").allowed());
        assert!(limited.hit("alone").allowed());
    }
    // The keys are used more often than the age. A denial is a use too, otherwise a drained key
    // would become full while it is attacked.
    let mut second = 0;
    clean_for(&store, &clock, 1_000, || {
        second += 1;
        if second % 90 == 0 {
            for limited in &all {
                assert!(!limited.hit("denied").allowed(), "{} at {second}", limited.limits()[0]);
                assert_eq!(limited.peek("peeked").used(), 1, "{} at {second}", limited.limits()[0]);
            }
        }
    });
    assert_eq!(store.entries(), 2 * all.len());
}

pub(super) fn without_a_configured_age_unused_keys_are_kept<S: Subject>() {
    let (store, clock) = aged::<S>(None);
    let all = limiters(&store, 1, 24 * HOUR);
    for limited in &all {
        assert!(limited.hit("key").allowed());
    }
    clean_for(&store, &clock, 1_000, || {});
    clock.advance(15 * HOUR);
    store.sweep();
    // One limit counts in windows of the clock, and its window may have ended by now.
    let kept = all.iter().filter(|limited| limited.usage("key") == 1).count();
    assert!(kept >= all.len() - 1, "{kept} of {}", all.len());
    assert_eq!(store.entries(), kept);
}

/// Each limit is used only once, as with requests that bring their own limits. Only preparing the
/// next limit triggers the cleaning.
pub(super) fn limits_that_are_used_only_once_are_forgotten<S: Subject>() {
    const PER_PERIOD: u32 = 500;
    let clock = ManualClock::new(START);
    let period = Duration::from_secs(60);
    let store = S::build(Settings { clean_period: period, ..Settings::new(clock.clone()) });
    let use_once = |from: u32| {
        for number in from..from + 6 * PER_PERIOD {
            let tenant = format!("tenant {number}");
            let once = Limiter::new(&store, &tenant, "1/minute").expect("there is room");
            assert!(once.hit("key").allowed());
            clock.advance(period / PER_PERIOD);
        }
        (store.known_limits(), live_bytes())
    };
    let (limits, bytes) = use_once(0);
    // It takes one period until a state is fresh, one until the next cleaning, and the time of the
    // cleaning.
    assert!(limits <= 3 * PER_PERIOD as usize, "{limits} limits");
    let (later_limits, later_bytes) = use_once(1_000_000);
    assert!(later_limits <= 3 * PER_PERIOD as usize, "{later_limits} limits");
    let grown = later_bytes.saturating_sub(bytes);
    assert!(
        grown < 500_000,
        "the memory grew by {grown} bytes although the number of limits in use did not grow"
    );
}

pub(super) fn a_limit_in_use_is_never_forgotten_at_the_bound_on_limits<S: Subject>() {
    let clock = ManualClock::new(START);
    let settings = Settings::new(clock.clone());
    let store = S::build(Settings { max_limits: 3, clean_period: HOUR, ..settings });
    let held = limiter(&store, "5/minute");
    let counted = limiter(&store, "5/hour");
    assert!(counted.hit("key").allowed());
    drop(counted);
    drop(limiter(&store, "7/hour"));
    // The third limit has neither a limiter nor a key, so it is replaced.
    let third = limiter(&store, "8/hour");
    assert_eq!(store.known_limits(), 3);

    let refused = Limiter::new(&store, "", "9/hour").expect_err("all three are in use");
    assert!(refused.to_string().contains("3 limits") && refused.to_string().contains("max_limits"));
    assert_eq!(limiter(&store, "5/hour").usage("key"), 1, "a known limit is accepted");
    assert!(held.hit("key").allowed() && third.hit("key").allowed());

    clock.advance(2 * HOUR);
    // The key of the limit `5/hour` has expired by now.
    let fourth = limiter(&store, "9/hour");
    assert!(fourth.hit("key").allowed());
    assert_eq!((held.usage("key"), store.known_limits()), (0, 3));
}
