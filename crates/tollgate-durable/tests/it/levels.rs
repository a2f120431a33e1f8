//! Each level keeps what it promises, from one run to the next and after a crash.

use std::time::Duration;

use tollgate::shared::SharedStore;
use tollgate::{ErrorKind, KeyRef, Limit, Source};
use tollgate_durable::{Durable, Level};
use tollgate_testkit::block_on;
use tollgate_testservers::{Directory, eventually};

use crate::disk::Disk;

const LEVELS: [Level; 4] = [Level::None, Level::Interval, Level::Reserve, Level::Sync];

fn used(store: &Durable, text: &str, key: &str) -> u64 {
    block_on(store.limiter(text).unwrap().usage(key)).unwrap()
}

#[test]
fn an_orderly_end_forgets_nothing() {
    for level in LEVELS {
        let disk = Disk::default();
        let open = || disk.builder().level(level).open().unwrap();
        let store = open();
        let limiter = store.limiter("1000/day").unwrap();
        for _ in 0..300 {
            let _ = block_on(limiter.hit("hot")).unwrap();
        }
        let _ = block_on(limiter.hit("cold")).unwrap();
        let back = block_on(limiter.hit_n("given back", 5)).unwrap();
        let _ = block_on(limiter.refund("given back", &back)).unwrap();
        let _ = block_on(limiter.hit("reset")).unwrap();
        assert!(block_on(limiter.reset("reset")).unwrap());
        // The last handles close the store.
        drop((limiter, store));
        let store = open();
        let left = ["hot", "cold", "given back", "reset"].map(|key| used(&store, "1000/day", key));
        assert_eq!(left, [300, 1, 0, 0], "{level}");
        assert_eq!(used(&store, "1000/hour", "hot"), 0, "{level}: another limit");
    }
}

#[test]
fn without_a_commit_only_sync_survives_a_crash() {
    for level in LEVELS {
        let disk = Disk::default();
        let store = disk.builder().level(level).interval(Duration::from_secs(3600)).open().unwrap();
        let _ = block_on(store.limiter("9/day").unwrap().hit_n("key", 3)).unwrap();
        let after = disk.as_it_is().builder().open().unwrap();
        assert_eq!(
            used(&after, "9/day", "key"),
            if level == Level::Sync { 3 } else { 0 },
            "{level}"
        );
    }
}

#[test]
fn changes_are_written_once_per_interval() {
    for level in [Level::Interval, Level::Reserve] {
        let disk = Disk::default();
        let store = disk.builder().level(level).interval(Duration::from_millis(10)).open().unwrap();
        let _ = block_on(store.limiter("7/day").unwrap().hit_n("key", 3)).unwrap();
        eventually("it is on disk", || {
            let after = disk.as_it_is().builder().open();
            after.is_ok_and(|after| used(&after, "7/day", "key") == 3)
        });
    }
}

#[test]
fn clearing_reaches_keys_that_were_never_read() {
    let disk = Disk::default();
    let open = || disk.builder().open().unwrap();
    let store = open();
    for namespace in ["a", "b"] {
        let limiter = store.limiter_in(namespace, "9/day").unwrap();
        for key in 0..50 {
            let _ = block_on(limiter.hit(key)).unwrap();
        }
    }
    drop(store);
    let store = open();
    let (a, b) = (store.limiter_in("a", "9/day").unwrap(), store.limiter_in("b", "9/day").unwrap());
    // This brings key 1 into memory; the other keys are only in the file.
    assert_eq!(block_on(a.usage(1)).unwrap(), 1);
    block_on(a.clear()).unwrap();
    let _ = block_on(a.hit(2)).unwrap();
    drop((a, b, store));
    let store = open();
    let used = |namespace: &str, key: u32| {
        block_on(store.limiter_in(namespace, "9/day").unwrap().usage(key)).unwrap()
    };
    assert_eq!([used("a", 1), used("a", 2), used("a", 3)], [0, 1, 0]);
    assert_eq!([used("b", 1), used("b", 3)], [1, 1]);
    block_on(store.clear_namespace("b")).unwrap();
    assert_eq!([used("b", 1), used("b", 3), used("a", 2)], [0, 0, 1]);
}

#[test]
fn expired_states_leave_memory_and_file() {
    let disk = Disk::default();
    let clock = tollgate::ManualClock::new(tollgate::Timestamp::from_micros(1_790_000_000_000_000));
    let open = || {
        let builder = disk.builder().clock(clock.clone()).interval(Duration::from_millis(5));
        builder.clean_period(Duration::from_millis(5)).open().unwrap()
    };
    let store = open();
    let limit: Limit = "5/minute".parse().unwrap();
    let limiter = store.limiter(limit.clone()).unwrap();
    for key in ["one", "two"] {
        let _ = block_on(limiter.hit(key)).unwrap();
    }
    let kept = |store: &Durable, key: &str| {
        block_on(store.kept_until("", limit.clone(), KeyRef::plain(key.as_bytes()))).unwrap()
    };
    assert!(kept(&store, "one").is_some());
    drop((limiter, store));
    // The next run uses one of the keys, and not the other.
    let store = open();
    assert_eq!(used(&store, "5/minute", "one"), 1);
    assert!(kept(&store, "two").is_some());
    clock.advance(Duration::from_secs(3600));
    eventually("both have left the file", || {
        kept(&store, "one").is_none() && kept(&store, "two").is_none()
    });
    eventually("and memory", || store.is_empty());
}

#[test]
fn at_the_bound_known_keys_keep_their_states() {
    let disk = Disk::default();
    let open = || disk.builder().max_keys(2).open().unwrap();
    let store = open();
    let limiter = store.limiter("2/day").unwrap();
    let source = |key: &str| block_on(limiter.hit(key)).unwrap().source();
    assert_eq!(
        [source("a"), source("b"), source("c")],
        [Source::Store, Source::Store, Source::Overflow]
    );
    assert_eq!((source("a"), store.overflowed()), (Source::Store, 1));
    assert!(!block_on(limiter.hit("a")).unwrap().allowed());
    drop((limiter, store));
    // Keys of the file are known, however many others came first.
    let store = open();
    let limiter = store.limiter("2/day").unwrap();
    for key in ["x", "y", "z"] {
        let _ = block_on(limiter.hit(key)).unwrap();
    }
    assert!(!block_on(limiter.hit("a")).unwrap().allowed());
}

#[test]
fn a_closed_store_returns_errors_and_can_be_closed_again() {
    let directory = Directory::new();
    let path = directory.path().join("limits").display().to_string();
    let store = Durable::open(&path).unwrap();
    let limiter = store.limiter("2/day").unwrap();
    let _ = block_on(limiter.hit("key")).unwrap();
    store.close().unwrap();
    store.clone().close().unwrap();
    for error in [
        block_on(limiter.hit("key")).unwrap_err(),
        block_on(limiter.peek("key")).unwrap_err(),
        block_on(limiter.clear()).unwrap_err(),
        block_on(store.check()).unwrap_err(),
        block_on(store.flush()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let again = Durable::open(format!("durable:{path}?level=sync")).unwrap();
    assert_eq!(used(&again, "2/day", "key"), 1);
}

#[test]
fn levels_that_never_wait_work_without_the_disk() {
    for level in [Level::None, Level::Interval] {
        let disk = Disk::default();
        let store = disk.builder().level(level).interval(Duration::from_millis(5)).open().unwrap();
        let limiter = store.limiter("9/day").unwrap();
        let _ = block_on(limiter.hit("key")).unwrap();
        disk.fail(true);
        let error = block_on(store.check()).unwrap_err();
        assert!(error.to_string().contains("no space left on device"), "{error}");
        assert!(block_on(limiter.hit("key")).unwrap().allowed(), "{level}");
        disk.fail(false);
        eventually("the disk is found well", || block_on(store.check()).is_ok());
        drop((limiter, store));
        let after = disk.builder().open().unwrap();
        assert_eq!(used(&after, "9/day", "key"), 2, "{level}");
    }
}

#[test]
fn a_close_that_cannot_write_is_an_error() {
    let disk = Disk::default();
    let store = disk.builder().level(Level::None).open().unwrap();
    let _ = block_on(store.limiter("9/day").unwrap().hit("key")).unwrap();
    disk.fail(true);
    let error = store.close().unwrap_err();
    assert!(error.to_string().contains("no space left on device"), "{error}");
}
