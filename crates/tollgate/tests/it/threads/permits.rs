//! Tests of permits: never more than the limit, in order of arrival, and none is lost by a panic, a
//! cancelled wait or a timeout.

use std::collections::HashSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tollgate::hold::{HoldStatus, Holds, Reserved};
use tollgate::memory::Permit;
use tollgate::{Error, ManualClock, Memory, SystemClock, Timestamp};

const LIVE: u64 = 3;
const THREADS: u64 = 8;
const TURNS: u64 = 200;

fn poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the permit of this turn, if the way of this turn to ask for one gave it.
fn take(
    jobs: &Holds<Memory<SystemClock>>,
    turn: u64,
    units: u64,
) -> Result<Option<Permit<SystemClock>>, Error> {
    let long = Duration::from_secs(60);
    match turn % 5 {
        0 => jobs.permit("key", units),
        1 => {
            // A wait that is cancelled after its first poll.
            let mut wait = pin!(jobs.wait_for_permit("key", units));
            match poll(&mut wait) {
                Poll::Ready(permit) => permit.map(Some),
                Poll::Pending => Ok(None),
            }
        }
        2 => jobs.permit_blocking("key", units, Duration::ZERO),
        _ => jobs.permit_blocking("key", units, long),
    }
}

#[test]
fn permits_never_exceed_the_limit_and_none_is_lost() {
    let jobs = Memory::new().holds(format!("{LIVE} concurrent")).unwrap();
    let (live, granted) = (AtomicU64::new(0), AtomicU64::new(0));
    let fences = Mutex::new(HashSet::new());
    let work = |worker: u64| {
        for turn in 0..TURNS {
            let units = 1 + (worker + turn) % 2;
            let taken = take(&jobs, worker + turn, units).unwrap();
            let Some(permit) = taken else { continue };
            let before = live.fetch_add(units, Ordering::SeqCst);
            assert!(before + units <= LIVE, "{before} units are live, and {units} were granted");
            granted.fetch_add(1, Ordering::SeqCst);
            assert!(fences.lock().unwrap().insert(permit.fence()), "a fence was given twice");
            let mut guard = Some(permit);
            let panics = turn % 7 == 0;
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let _permit = guard.take();
                thread::yield_now();
                live.fetch_sub(units, Ordering::SeqCst);
                if panics {
                    // Without the hook, so that the output stays readable.
                    resume_unwind(Box::new("the work panics"));
                }
            }));
            assert_eq!(ended.is_err(), panics);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..THREADS).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    // Each fifth turn of the kind that waits for a minute is granted.
    assert!(granted.load(Ordering::SeqCst) >= THREADS * TURNS * 2 / 5);
    assert_eq!(jobs.usage("key"), 0, "a permit leaked");
    let all: Vec<_> = (0..LIVE).map(|_| jobs.permit("key", 1).unwrap()).collect();
    assert!(all.iter().all(Option::is_some), "a caller that is gone still waits");
}

#[test]
fn waiting_callers_are_served_in_the_order_of_their_arrival() {
    let jobs = Memory::new().holds("1 concurrent").unwrap();
    let first = jobs.permit("key", 1).unwrap().unwrap();
    let mut waits = [(); 3].map(|()| Box::pin(jobs.wait_for_permit("key", 1)));
    let mut ready = |index: usize| poll(&mut waits[index].as_mut());
    assert!((0..3).all(|index| ready(index).is_pending()));
    drop(first);
    assert!(ready(2).is_pending() && ready(1).is_pending(), "only the first caller is served");
    let Poll::Ready(second) = ready(0) else { panic!("the first caller was not served") };
    let fence = second.as_ref().unwrap().fence();
    drop(second);
    // The unit is given to the second caller, so that nobody takes it before it is polled.
    assert!(jobs.permit("key", 1).unwrap().is_none());
    assert!(ready(2).is_pending());
    let Poll::Ready(third) = ready(1) else { panic!("the second caller was not served") };
    assert!(third.unwrap().fence() > fence);
}

#[test]
fn a_cancelled_wait_passes_its_units_on() {
    let jobs = Memory::new().holds("2 concurrent").unwrap();
    let first = jobs.permit("key", 1).unwrap().unwrap();
    let mut large = Box::pin(jobs.wait_for_permit("key", 2));
    let mut small = Box::pin(jobs.wait_for_permit("key", 1));
    assert!(poll(&mut large.as_mut()).is_pending());
    assert!(poll(&mut small.as_mut()).is_pending(), "the caller before it needs two units");
    drop(large);
    assert!(poll(&mut small.as_mut()).is_ready());
    drop(small);
    // Units that were given to a caller that is dropped before it takes them are free again.
    let mut unpolled = Box::pin(jobs.wait_for_permit("key", 2));
    assert!(poll(&mut unpolled.as_mut()).is_pending());
    drop(first);
    drop(unpolled);
    assert_eq!(jobs.usage("key"), 0);
}

#[test]
fn a_settled_hold_gives_its_slot_to_a_caller_that_waits() {
    let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    let jobs = Memory::builder().clock(clock.clone()).build().holds("1 concurrent").unwrap();
    let Reserved::Open(hold) = jobs.reserve("key", 1).unwrap() else { panic!("denied") };
    let mut wait = Box::pin(jobs.wait_for_permit("key", 1));
    assert!(poll(&mut wait.as_mut()).is_pending());
    assert_eq!(hold.settle(1).unwrap().status, HoldStatus::Settled);
    let Poll::Ready(permit) = poll(&mut wait.as_mut()) else { panic!("not served") };
    assert!(permit.unwrap().fence() > hold.fence().unwrap());
    // A hold that expires frees its slot without a call, which a caller with a timer notices.
    let Reserved::Open(_) = jobs.reserve("key", 1).unwrap() else { panic!("denied") };
    clock.advance(Duration::from_secs(60));
    let permit = jobs.permit_blocking("key", 1, Duration::ZERO).unwrap();
    assert!(permit.is_some());
}

#[test]
fn a_reset_key_does_not_repeat_a_fence() {
    let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    let jobs = Memory::builder().clock(clock).build().holds("2 concurrent").unwrap();
    let first = jobs.permit("key", 1).unwrap().unwrap();
    assert!(jobs.reset("key"));
    let second = jobs.permit("key", 2).unwrap().unwrap();
    assert!(second.fence() > first.fence());
    // The release of a holder that was reset does not free the units of another holder.
    drop(first);
    assert_eq!(jobs.usage("key"), 2);
}

#[test]
fn invalid_permits_are_errors() {
    let store = Memory::new();
    assert!(store.limiter("3 concurrent").is_err(), "a limiter counts hits");
    let jobs = store.holds("3 concurrent").unwrap();
    for (holds, units) in [
        (&jobs, 0),
        (&jobs, 4),
        (&store.holds("3/minute").unwrap(), 1),
        (&store.holds("3 concurrent; 3/minute").unwrap(), 1),
    ] {
        assert!(holds.permit("key", units).is_err());
    }
}
