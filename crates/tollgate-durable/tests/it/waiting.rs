//! Tests which calls wait, for what, and for how long.

use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{OnFailure, SharedStore};
use tollgate::{Clock, ErrorKind, Key, Limit, Source, SystemClock};
use tollgate_durable::{Durable, Level};
use tollgate_testkit::block_on;

use crate::disk::Disk;

fn open(level: Level) -> (Disk, Durable) {
    let disk = Disk::default();
    let store = disk.builder().level(level).interval(Duration::from_secs(3600)).open().unwrap();
    (disk, store)
}

fn try_now(store: &Durable, limit: &str, op: Op) -> bool {
    let limit: Limit = limit.parse().unwrap();
    let prepared = store.prepare("", &limit).unwrap();
    "key".with_key(|key| store.try_now(&prepared, key, op, None)).is_some()
}

#[test]
fn a_key_within_its_reserve_is_answered_without_waiting() {
    let (_disk, store) = open(Level::Reserve);
    let limit = "800/day";
    for _ in 0..10 {
        assert!(try_now(&store, limit, Op::Hit(1)), "a new key");
    }
    block_on(store.flush()).unwrap();
    for hit in 1..=10 {
        assert!(try_now(&store, limit, Op::Hit(1)), "hit {hit} of the ten that are reserved");
    }
    assert!(!try_now(&store, limit, Op::Hit(1)), "the reserve is gone");
    assert!(try_now(&store, limit, Op::Peek(1)));
    assert!(try_now(&store, limit, Op::Hit(800)), "a refusal never waits");
    let limiter = store.limiter(limit).unwrap();
    assert!(block_on(limiter.hit("key")).unwrap().allowed());
    assert!(try_now(&store, limit, Op::Hit(1)), "a new reserve");
    assert!(!try_now(&store, limit, Op::Set(3)), "what is set is on disk when it is answered");
}

#[test]
fn at_the_level_sync_only_calls_without_changes_are_answered_without_waiting() {
    let (_disk, store) = open(Level::Sync);
    assert!(!try_now(&store, "2/day", Op::Hit(1)));
    assert!(try_now(&store, "2/day", Op::Hit(3)));
    let limiter = store.limiter("2/day").unwrap();
    assert!(block_on(limiter.hit("key")).unwrap().allowed());
    assert!(!try_now(&store, "2/day", Op::Hit(1)));
    assert!(try_now(&store, "2/day", Op::Peek(1)));
    assert!(try_now(&store, "2/day", Op::Hit(2)));
}

#[test]
fn levels_without_waits_answer_everything_without_waiting() {
    for level in [Level::None, Level::Interval] {
        let (_disk, store) = open(level);
        for op in [Op::Hit(1), Op::Charge(9), Op::Take(4), Op::Set(1), Op::RefundUnits(1)] {
            assert!(try_now(&store, "2/day", op), "{level} {op:?}");
        }
    }
}

#[test]
fn callers_that_wait_at_the_same_time_share_a_commit() {
    let (disk, store) = open(Level::Sync);
    let limiter = store.limiter("1000/day").unwrap();
    let _ = block_on(limiter.hit(0)).unwrap();
    let before = disk.syncs();
    let held = disk.hold();
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        for key in 0..32 {
            let (limiter, done) = (limiter.clone(), done.clone());
            scope.spawn(move || {
                let limiter = limiter.deadline(Duration::from_secs(30));
                done.send(block_on(limiter.hit(key)).unwrap().allowed()).unwrap();
            });
        }
        // All calls were sent, and none is answered before it is on disk.
        tollgate_testservers::eventually("all are in memory", || store.len() == 32);
        assert!(finished.try_recv().is_err());
        drop(held);
    });
    assert_eq!(finished.try_iter().filter(|allowed| *allowed).count(), 32);
    let commits = disk.syncs() - before;
    assert!(commits < 16, "{commits} for 32 callers");
}

#[test]
fn a_disk_that_hangs_is_given_up_at_the_deadline() {
    let (disk, store) = open(Level::Sync);
    let limiter = store.limiter("5/day").unwrap().deadline(Duration::from_millis(20));
    let held = disk.hold();
    let clock = SystemClock::new();
    let begin = clock.now();
    let error = block_on(limiter.hit("key")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let took = clock.now().since(begin);
    assert!(took >= Duration::from_millis(20), "{took:?}");
    let open = limiter.clone().on_failure(OnFailure::Open).unwrap();
    assert_eq!(block_on(open.hit("other")).unwrap().source(), Source::FailOpen);
    drop(held);
    // A call that was given up was charged all the same.
    let patient = limiter.deadline(Duration::from_secs(30));
    assert_eq!(block_on(patient.usage("key")).unwrap(), 1);
}

#[test]
fn tasks_and_timers_run_without_a_runtime() {
    let (_disk, store) = open(Level::Reserve);
    let (tell, told) = mpsc::channel();
    let runtime = store.guard().runtime();
    let sleep = runtime.sleep(Duration::from_millis(5));
    runtime.spawn(Box::pin(async move {
        sleep.await;
        tell.send(()).unwrap();
    }));
    told.recv_timeout(Duration::from_secs(30)).unwrap();
    // A sleep that is dropped leaves nothing behind, and one of length zero is over.
    let mut nothing = runtime.sleep(Duration::ZERO);
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(nothing.as_mut().poll(&mut context), Poll::Ready(()));
    let mut long = runtime.sleep(Duration::from_secs(3600));
    assert_eq!(long.as_mut().poll(&mut context), Poll::Pending);
    drop(long);
}

#[test]
fn a_wait_for_a_later_time_ends() {
    let (_disk, store) = open(Level::Reserve);
    let limiter = store.limiter("1/20 ms").unwrap();
    assert!(block_on(limiter.hit("key")).unwrap().allowed());
    let decision = block_on(limiter.wait("key", 1, Duration::from_secs(30))).unwrap();
    assert!(decision.allowed());
}
