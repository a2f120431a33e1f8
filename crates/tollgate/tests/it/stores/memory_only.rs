//! Tests of the features that only a store with keys has: lists of keys, and a call of a function
//! for forgotten keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::memory::Expired;
use tollgate::{Limiter, ManualClock, Memory, Tagged, Timestamp};

use super::{HOUR, START, admitted, limiters, store};
use crate::threads::on_threads;

type MemoryAtStart = super::MemorySubject;

/// Returns a store that records the keys passed to `before_clean`, its clock and the records.
fn observed() -> (Memory<ManualClock>, ManualClock, Arc<Mutex<Vec<Expired>>>) {
    let (clock, seen) = (ManualClock::new(START), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&seen);
    let store = Memory::builder()
        .clock(clock.clone())
        .clean_period(HOUR)
        .before_clean(move |batch| {
            log.lock().expect("no test panics while it holds the lock").extend_from_slice(batch);
        })
        .build();
    (store, clock, seen)
}

#[test]
fn memory_supports_every_algorithm() {
    let (store, _) = store::<MemoryAtStart>();
    assert_eq!(limiters(&store, 1, HOUR).len(), tollgate::Algorithm::PERIODIC.len());
}

#[test]
fn before_clean_gets_limit_key_value_and_time() {
    let (store, clock, seen) = observed();
    let table = [
        ("5/minute fixed-window-per-key", 3, 60),
        ("5/minute elastic-window", 3, 60),
        ("5/minute moving-window", 3, 60),
        ("5/minute sliding-window", 3, 120),
        ("5/minute token-bucket", 3, 36),
        ("5/minute leaky-bucket", 3, 36),
        // GCRA stores only the time until which units are in use.
        ("5/minute gcra", 0, 36),
    ];
    for (limit, _, _) in table {
        let limited = store.limiter(limit).unwrap();
        assert!(limited.hit_n("one", 2).allowed());
        assert!(limited.hit("one").allowed());
    }
    clock.advance(HOUR);
    assert_eq!(store.clean(), table.len());
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), table.len());
    for (text, value, seconds) in table {
        let limit = text.parse().unwrap();
        let expired = seen.iter().find(|expired| *expired.limit() == limit).expect(text);
        assert_eq!((expired.key().bytes(), expired.value()), (&b"one"[..], value), "{text}");
        assert_eq!(expired.expired_at(), START + Duration::from_secs(seconds), "{text}");
    }
}

#[test]
fn before_clean_gets_the_end_of_a_window_of_the_clock() {
    let (store, clock, seen) = observed();
    assert!(store.limiter("5/minute fixed-window").unwrap().hit_n("one", 4).allowed());
    clock.advance(HOUR);
    assert_eq!(store.clean(), 1);
    let end = Timestamp::from_micros((START.as_micros() / 60_000_000 + 1) * 60_000_000);
    let seen = seen.lock().unwrap();
    assert_eq!((seen[0].value(), seen[0].expired_at()), (4, end));
}

#[test]
fn before_clean_gets_each_forgotten_key_exactly_once() {
    let (store, clock, seen) = observed();
    let limited = store.limiter("3/second").unwrap();
    for round in 1..=3 {
        for key in 0..2_000 {
            assert!(limited.hit(key).allowed());
        }
        clock.advance(HOUR);
        // A part of the keys is cleaned by hits, and the rest by `clean`.
        let other = store.limiter("100000/day name=other").unwrap();
        (0..100).for_each(|_| assert!(other.hit("other").allowed()));
        store.clean();
        store.clean();
        let mut times = BTreeMap::new();
        for expired in seen.lock().unwrap().iter() {
            *times.entry(expired.key().to_string()).or_insert(0) += 1;
        }
        assert_eq!(times.len(), 2_000);
        assert!(times.values().all(|times| *times == round), "round {round}");
    }
}

#[test]
fn before_clean_gets_each_key_exactly_once_while_threads_hit_and_clean() {
    const KEYS: u64 = 5_000;
    let (store, clock, seen) = observed();
    let limited = store.limiter("1/millisecond").unwrap();
    on_threads(3, |index| {
        for n in 0..KEYS {
            if index < 2 {
                assert!(limited.hit((index, n)).allowed());
            }
            if n % 50 == 0 {
                clock.advance(Duration::from_micros(300));
                store.clean();
            }
        }
    });
    clock.advance(HOUR);
    store.clean();
    let mut keys: Vec<String> =
        seen.lock().unwrap().iter().map(|expired| expired.key().to_string()).collect();
    assert_eq!(keys.len() as u64, 2 * KEYS);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((keys.len() as u64, store.len()), (2 * KEYS, 0));
}

#[test]
fn before_clean_gets_keys_of_any_kind() {
    let (store, clock, seen) = observed();
    let limited = store.limiter("1/second").unwrap();
    let long = "x".repeat(500);
    assert!(limited.hit("").allowed());
    assert!(limited.hit(b"\xff\0").allowed());
    assert!(limited.hit(("a", long.as_str())).allowed());
    assert!(limited.hit(Tagged("a", "b")).allowed());
    clock.advance(HOUR);
    assert_eq!(store.clean(), 4);
    for expired in seen.lock().unwrap().iter() {
        assert!(limited.hit(expired).allowed());
    }
    assert!(!limited.hit("").allowed());
    assert!(!limited.hit(b"\xff\0").allowed());
    assert!(!limited.hit(("a", long.as_str())).allowed());
    assert!(!limited.hit(Tagged("a", "b")).allowed());
}

#[test]
fn a_store_works_after_a_panic_in_before_clean() {
    let clock = ManualClock::new(START);
    let store = Memory::builder()
        .clock(clock.clone())
        .before_clean(|batch| panic!("{} keys", batch.len()))
        .build();
    let limited = store.limiter("1/second").unwrap();
    (0..100).for_each(|key| assert!(limited.hit(key).allowed()));
    clock.advance(HOUR);
    assert_eq!(store.clean(), 100);
    assert_eq!((store.len(), store.clean()), (0, 0));
    (0..100).for_each(|key| assert_eq!(admitted(&limited, key, 3), 1));
}

#[test]
fn before_clean_may_use_the_store() {
    let clock = ManualClock::new(START);
    let own: Arc<Mutex<Option<Limiter<Memory<ManualClock>>>>> = Arc::default();
    let inside = Arc::clone(&own);
    let store = Memory::builder()
        .clock(clock.clone())
        .before_clean(move |batch| {
            let limited = inside.lock().unwrap().clone().expect("set below");
            batch.iter().for_each(|expired| assert!(limited.hit(expired).allowed()));
        })
        .build();
    *own.lock().unwrap() = Some(store.limiter("1/day").unwrap());
    let limited = store.limiter("1/second").unwrap();
    (0..100).for_each(|key| assert!(limited.hit(key).allowed()));
    clock.advance(Duration::from_secs(1));
    assert_eq!((store.clean(), store.len()), (100, 100));
    *own.lock().unwrap() = None;
}

/// Otherwise every hit within `before_clean` would clean one more shard and call `before_clean`
/// again, until the stack overflows.
#[test]
fn before_clean_never_starts_cleaning() {
    #[derive(Default)]
    struct Seen {
        keys: usize,
        depth: usize,
        deepest: usize,
        cleaned: usize,
    }
    type Handle = (Memory<ManualClock>, Limiter<Memory<ManualClock>>);
    let clock = ManualClock::new(START);
    let (own, seen) = (Arc::new(Mutex::new(None::<Handle>)), Arc::new(Mutex::new(Seen::default())));
    let (inside, log) = (Arc::clone(&own), Arc::clone(&seen));
    let store = Memory::builder()
        .clock(clock.clone())
        .clean_period(HOUR)
        .before_clean(move |batch| {
            let (store, limited) = inside.lock().unwrap().clone().expect("set below");
            {
                let mut seen = log.lock().unwrap();
                seen.keys += batch.len();
                seen.depth += 1;
                seen.deepest = seen.deepest.max(seen.depth);
            }
            assert!(limited.peek("anybody").allowed());
            let cleaned = store.clean();
            let mut seen = log.lock().unwrap();
            seen.depth -= 1;
            seen.cleaned += cleaned;
        })
        .build();
    let limited = store.limiter("1/second").unwrap();
    *own.lock().unwrap() = Some((store.clone(), limited.clone()));
    (0..10_000).for_each(|key| assert!(limited.hit(key).allowed()));
    clock.advance(2 * HOUR);
    (0..1_000).for_each(|_| assert!(limited.peek("anybody").allowed()));
    *own.lock().unwrap() = None;
    let seen = seen.lock().unwrap();
    assert_eq!((seen.keys, seen.deepest, seen.cleaned), (10_000, 1, 0));
    assert!(store.is_empty(), "hits outside of before_clean have cleaned");
}

#[test]
fn the_list_of_keys_has_all_keys_that_are_not_fresh() {
    let (store, clock) = store::<MemoryAtStart>();
    for limited in limiters(&store, 5, HOUR) {
        assert!(limited.hit_n(("user", 7), 3).allowed());
    }
    let there = Limiter::new(&store, "there", "5/second").unwrap();
    assert!(there.hit("short").allowed());
    let mut keys = store.keys();
    assert_eq!(keys.len(), 9);
    keys.retain(|usage| usage.namespace() == "there");
    assert_eq!(keys.len(), 1);
    assert_eq!((keys[0].used(), keys[0].limit()), (1, &there.limits()[0]));
    assert_eq!(keys[0].key().to_string(), "short");
    clock.advance(Duration::from_secs(1));
    let keys = store.keys();
    assert_eq!(keys.len(), 8, "a fresh key is not listed, even if it is not yet cleaned");
    for usage in &keys {
        assert_eq!(usage.namespace(), "");
        assert_eq!(usage.key().parts().collect::<Vec<_>>(), [&b"user"[..], b"7"]);
        // The limits of an hour still count after a second, because START is not near the end of an
        // hour.
        assert_eq!(usage.used(), 3, "{}", usage.limit());
    }
    clock.advance(3 * HOUR);
    assert!(store.keys().is_empty());
}

#[test]
fn the_busiest_keys_come_first() {
    let (store, _) = store::<MemoryAtStart>();
    let limited = Limiter::new(&store, "", "1000/hour fixed-window-per-key").unwrap();
    let other = Limiter::new(&store, "", "1000/hour moving-window").unwrap();
    for key in 1..=300_u64 {
        assert!(limited.hit_n(key, key * 7 % 307).allowed());
    }
    assert!(other.hit_n("top", 900).allowed());
    let top: Vec<u64> = store.busiest(5).iter().map(tollgate::memory::KeyUsage::used).collect();
    assert_eq!(top, [900, 306, 305, 304, 303]);
    assert_eq!(store.busiest(1)[0].key().to_string(), "top");
    assert_eq!((store.busiest(0).len(), store.busiest(1_000).len()), (0, 301));
    let all = store.busiest(1_000);
    assert!(all.is_sorted_by(|a, b| a.used() >= b.used()));
}

#[test]
fn an_unused_limit_is_forgotten_only_without_keys() {
    let (store, clock) = store::<MemoryAtStart>();
    for n in 1..=1_000_u64 {
        let limited = Limiter::new(&store, "", format!("{n}/minute").as_str()).unwrap();
        assert!(limited.hit_n("key", n).allowed());
        store.clean();
    }
    for n in 1..=1_000_u64 {
        let limited = Limiter::new(&store, "", format!("{n}/minute").as_str()).unwrap();
        assert_eq!(limited.usage("key"), n);
    }
    clock.advance(HOUR);
    assert_eq!(store.clean(), 1_000);
    let limited = Limiter::new(&store, "", "7/hour").unwrap();
    assert_eq!(
        limited.usage("key"),
        0,
        "a limit that reuses the number of a forgotten limit starts without keys"
    );
}
