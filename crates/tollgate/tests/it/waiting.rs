//! Tests of waiting until a hit is allowed. They use a manual clock and poll the futures
//! themselves, so that they take no real time.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::{Clock, Decision, Limiter, ManualClock, Timestamp};

use crate::stores::{
    AtomicSubject, HOUR, MemorySubject, START, Settings, Subject, limiter, limiters, store,
};
use crate::threads::on_threads;

const SECOND: Duration = Duration::from_secs(1);

/// A waker that counts its wake-ups.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A wait that the test polls.
struct Waiter<'a> {
    future: Pin<Box<dyn Future<Output = Decision> + 'a>>,
    waker: Arc<CountingWaker>,
}

impl Waiter<'_> {
    fn poll(&mut self) -> Option<Decision> {
        let waker = Waker::from(Arc::clone(&self.waker));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(decision) => Some(decision),
            Poll::Pending => None,
        }
    }

    /// Returns the number of wake-ups since the previous call.
    fn wake_ups(&self) -> usize {
        self.waker.0.swap(0, Ordering::SeqCst)
    }
}

/// Starts a wait whose timer uses `clock`. The requested sleeps are recorded in `asked`.
fn wait<'a, S: Subject>(
    limiter: &'a Limiter<S>,
    clock: &'a ManualClock,
    asked: &'a RefCell<Vec<Duration>>,
    cost: u64,
    timeout: Duration,
) -> Waiter<'a> {
    let sleep = move |span| {
        asked.borrow_mut().push(span);
        let until = clock.now() + span;
        poll_fn(move |_| if clock.now() >= until { Poll::Ready(()) } else { Poll::Pending })
    };
    let future = Box::pin(limiter.wait("key", cost, timeout, sleep));
    Waiter { future, waker: Arc::default() }
}

/// Runs a wait to its end. Its timer moves the clock, so that every sleep ends immediately.
fn wait_through<S: Subject>(
    limiter: &Limiter<S>,
    clock: &ManualClock,
    cost: u64,
    timeout: Duration,
) -> Decision {
    let sleep = |span| {
        clock.advance(span);
        std::future::ready(())
    };
    let future = Box::pin(limiter.wait("key", cost, timeout, sleep));
    Waiter { future, waker: Arc::default() }.poll().expect("no sleep is pending")
}

fn a_cost_that_fits_does_not_wait<S: Subject>() {
    let (store, clock) = store::<S>();
    for limited in limiters(&store, 5, HOUR) {
        let decision = wait_through(&limited, &clock, 3, Duration::ZERO);
        assert_eq!((decision.allowed(), decision.charged()), (true, 3), "{}", limited.limits()[0]);
        assert_eq!((limited.usage("key"), clock.now()), (3, START), "{}", limited.limits()[0]);
    }
}

fn a_wait_ends_exactly_when_its_cost_fits<S: Subject>() {
    let (store, clock) = store::<S>();
    for limited in limiters(&store, 5, HOUR) {
        clock.set(START);
        assert!(limited.hit_n("key", 4).allowed());
        // A denied attempt extends an elastic window, and the reported wait takes that into
        // account.
        let fits_at = START + limited.hit_n("key", 3).retry_after().expect("it fits");
        let decision = wait_through(&limited, &clock, 3, 3 * HOUR);
        assert_eq!((decision.allowed(), decision.charged()), (true, 3), "{}", limited.limits()[0]);
        assert_eq!(clock.now(), fits_at, "{}", limited.limits()[0]);
    }
}

fn a_wait_beyond_the_deadline_is_denied_immediately<S: Subject>() {
    let (store, clock) = store::<S>();
    for limited in limiters(&store, 5, HOUR) {
        clock.set(START);
        assert!(limited.hit_n("key", 5).allowed());
        let needed = limited.hit("key").retry_after().expect("it fits");
        let short = wait_through(&limited, &clock, 1, needed - Duration::from_micros(1));
        assert_eq!((short.allowed(), short.charged()), (false, 0), "{}", limited.limits()[0]);
        assert_eq!(
            (short.retry_after(), clock.now()),
            (Some(needed), START),
            "{}",
            limited.limits()[0]
        );
        let enough = wait_through(&limited, &clock, 1, needed);
        assert!(enough.allowed(), "{}", limited.limits()[0]);
    }
}

fn a_cost_that_never_fits_returns_immediately<S: Subject>() {
    let (store, clock) = store::<S>();
    for limited in limiters(&store, 5, HOUR) {
        let decision = wait_through(&limited, &clock, 6, Duration::MAX);
        assert_eq!((decision.allowed(), decision.retry_after()), (false, None));
        assert_eq!((limited.usage("key"), clock.now()), (0, START), "{}", limited.limits()[0]);
    }
}

fn callers_are_served_in_the_order_of_their_arrival<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "1/second"), RefCell::default());
    assert!(limited.hit("key").allowed());
    let mut line: Vec<_> = (0..4).map(|_| wait(&limited, &clock, &asked, 1, 10 * SECOND)).collect();
    // A wait starts with its first poll.
    assert!(line.iter_mut().all(|waiter| waiter.poll().is_none()));
    for turn in 0..4 {
        clock.advance(SECOND);
        // The waiters that came last are polled first, but must still wait.
        for waiter in line[turn + 1..].iter_mut().rev() {
            assert!(waiter.poll().is_none(), "turn {turn}");
        }
        assert!(line[turn].poll().is_some_and(|decision| decision.allowed()), "turn {turn}");
        let wake_ups: Vec<usize> = line.iter().map(Waiter::wake_ups).collect();
        let only_next: Vec<usize> = (0..4).map(|n| usize::from(n == turn + 1)).collect();
        assert_eq!(wake_ups, only_next, "a waiter that leaves the queue wakes the next one");
        if let Some(next) = line.get_mut(turn + 1) {
            assert!(next.poll().is_none(), "its own wait of a second has just begun");
        }
    }
    assert_eq!(limited.usage("key"), 1);
}

fn keys_and_limits_wait_independently<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "1/hour"), RefCell::default());
    assert!(limited.hit("key").allowed());
    let mut waiter = wait(&limited, &clock, &asked, 1, HOUR);
    assert!(waiter.poll().is_none());
    let now = |_| std::future::ready(());
    let other = Box::pin(limited.wait("other", 1, HOUR, now));
    assert!(Waiter { future: other, waker: Arc::default() }.poll().is_some_and(|d| d.allowed()));
}

fn clones_of_a_limiter_share_one_queue<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "1/second"), RefCell::default());
    let clone = limited.clone();
    assert!(limited.hit("key").allowed());
    let mut first = wait(&limited, &clock, &asked, 1, HOUR);
    let mut second = wait(&clone, &clock, &asked, 1, HOUR);
    assert!(first.poll().is_none() && second.poll().is_none());
    clock.advance(SECOND);
    assert!(second.poll().is_none());
    assert!(first.poll().is_some_and(|d| d.allowed()));
}

fn a_dropped_wait_is_not_charged_and_wakes_the_next_caller<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "2/second fixed-window-per-key"), RefCell::default());
    assert!(limited.hit_n("key", 2).allowed());
    let mut first = wait(&limited, &clock, &asked, 2, HOUR);
    let mut middle = wait(&limited, &clock, &asked, 2, HOUR);
    let mut last = wait(&limited, &clock, &asked, 2, HOUR);
    assert!(first.poll().is_none() && middle.poll().is_none() && last.poll().is_none());
    drop(middle);
    assert_eq!((first.wake_ups(), last.wake_ups()), (0, 0), "the first waiter still waits");
    drop(first);
    assert_eq!(last.wake_ups(), 1, "the last waiter is now the first");
    assert_eq!(limited.usage("key"), 2);
    assert!(last.poll().is_none());
    clock.advance(SECOND);
    assert!(last.poll().is_some_and(|d| d.allowed()));
    assert_eq!(limited.usage("key"), 2, "the dropped waits were not charged");
}

fn a_caller_whose_wait_behind_others_is_too_long_is_denied_immediately<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "1/second burst=3"), RefCell::default());
    assert!(limited.hit_n("key", 3).allowed());
    let mut first = wait(&limited, &clock, &asked, 2, 10 * SECOND);
    assert!(first.poll().is_none());
    // The first waiter needs two seconds, and this one needs another second.
    let mut short = wait(&limited, &clock, &asked, 1, 2 * SECOND);
    let denied = short.poll().expect("the wait is denied immediately");
    assert_eq!((denied.allowed(), denied.charged()), (false, 0));
    assert_eq!(denied.retry_after(), Some(3 * SECOND));
    let mut enough = wait(&limited, &clock, &asked, 1, 3 * SECOND);
    assert!(enough.poll().is_none());
    clock.advance(2 * SECOND);
    assert!(first.poll().is_some_and(|d| d.allowed()));
    assert!(enough.poll().is_none());
    clock.advance(SECOND);
    assert!(enough.poll().is_some_and(|d| d.allowed()));
}

fn a_deadline_ends_a_wait_in_the_queue<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "1/second"), RefCell::default());
    assert!(limited.hit("key").allowed());
    let mut first = wait(&limited, &clock, &asked, 1, HOUR);
    let mut second = wait(&limited, &clock, &asked, 1, 5 * SECOND);
    assert!(first.poll().is_none() && second.poll().is_none());
    // The first waiter is not polled, as if its task were stuck.
    clock.advance(5 * SECOND);
    let denied = second.poll().expect("the deadline is over");
    assert_eq!((denied.allowed(), denied.charged()), (false, 0));
    assert!(first.poll().is_some_and(|d| d.allowed()));
}

fn an_early_wake_up_does_not_extend_an_elastic_window<S: Subject>() {
    let (store, clock) = store::<S>();
    let limited = limiter(&store, "1/minute elastic-window");
    assert!(limited.hit("key").allowed());
    clock.advance(10 * SECOND);
    // Each timer ends after half of its time, except the last one, which is exact.
    let sleep = |span: Duration| {
        let part = if span > 10 * SECOND { span / 2 } else { span };
        clock.advance(part);
        std::future::ready(())
    };
    let future = Box::pin(limited.wait("key", 1, HOUR, sleep));
    let decision = Waiter { future, waker: Arc::default() }.poll().expect("no sleep is pending");
    assert!(decision.allowed());
    assert_eq!(clock.now(), START + 70 * SECOND, "a minute after the only attempt");
}

fn a_wait_that_wakes_up_too_early_sleeps_again<S: Subject>() {
    let (store, clock) = store::<S>();
    for limited in limiters(&store, 2, HOUR) {
        clock.set(START);
        assert!(limited.hit_n("key", 2).allowed());
        let wait = limited.hit("key").retry_after().expect("it fits");
        let sleep = |span: Duration| {
            clock.advance(if span > SECOND { span / 2 } else { span });
            std::future::ready(())
        };
        let future = Box::pin(limited.wait("key", 1, 3 * HOUR, sleep));
        let decision =
            Waiter { future, waker: Arc::default() }.poll().expect("no sleep is pending");
        assert!(decision.allowed(), "{}", limited.limits()[0]);
        assert_eq!(clock.now(), START + wait, "{}", limited.limits()[0]);
    }
}

fn a_plain_hit_may_be_served_before_a_waiting_caller<S: Subject>() {
    let (store, clock) = store::<S>();
    let (limited, asked) = (limiter(&store, "1/second"), RefCell::default());
    assert!(limited.hit("key").allowed());
    let mut waiter = wait(&limited, &clock, &asked, 1, 10 * SECOND);
    assert!(waiter.poll().is_none());
    clock.advance(SECOND);
    assert!(limited.hit("key").allowed(), "a plain hit does not queue");
    assert!(waiter.poll().is_none(), "the waiter must wait again");
    assert_eq!(*asked.borrow(), [SECOND, SECOND]);
    clock.advance(SECOND);
    assert!(waiter.poll().is_some_and(|d| d.allowed()));
}

/// A clock that advances by 50 microseconds whenever it is read, so that blocking waits end
/// quickly.
#[derive(Debug)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(50, Ordering::SeqCst))
    }
}

fn blocking_threads_get_exactly_the_limit<S: Subject>() {
    let clock = Ticking(AtomicU64::new(START.as_micros()));
    let store = S::build(Settings::new(clock));
    // The threads ask for more than the quota of an hour, so some waits are denied immediately.
    let hourly = limiter(&store, "5/hour fixed-window-per-key");
    let allowed = on_threads(4, |_| {
        (0..5).filter(|_| hourly.wait_blocking("key", 1, SECOND).allowed()).count()
    });
    assert_eq!(allowed.iter().sum::<usize>(), 5);

    let paced = limiter(&store, "1000/second burst=1");
    let mut times: Vec<u64> = on_threads(4, |_| {
        let wait = |_| {
            let decision = paced.wait_blocking("key", 1, HOUR);
            assert!(decision.allowed());
            decision.now().as_micros()
        };
        (0..5).map(wait).collect::<Vec<u64>>()
    })
    .concat();
    times.sort_unstable();
    assert_eq!(times.len(), 20);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{times:?}");
}

macro_rules! waiting {
    ($($name:ident: $store:ty => $rules:tt),+ $(,)?) => {
        $(mod $name {
            use super::*;
            waiting!(@each $store, $rules);
        })+
    };
    (@each $store:ty, [$($rule:ident),+ $(,)?]) => {
        $(#[test]
        fn $rule() {
            super::$rule::<$store>();
        })+
    };
    (all: $($name:ident: $store:ty),+ $(,)?) => {
        waiting! { $($name: $store => [
            a_cost_that_never_fits_returns_immediately,
            a_deadline_ends_a_wait_in_the_queue,
            a_dropped_wait_is_not_charged_and_wakes_the_next_caller,
            a_cost_that_fits_does_not_wait,
            a_plain_hit_may_be_served_before_a_waiting_caller,
            a_wait_beyond_the_deadline_is_denied_immediately,
            a_wait_ends_exactly_when_its_cost_fits,
            an_early_wake_up_does_not_extend_an_elastic_window,
            a_wait_that_wakes_up_too_early_sleeps_again,
            blocking_threads_get_exactly_the_limit,
            clones_of_a_limiter_share_one_queue,
            keys_and_limits_wait_independently,
            callers_are_served_in_the_order_of_their_arrival,
            a_caller_whose_wait_behind_others_is_too_long_is_denied_immediately,
        ]),+ }
    };
}

waiting! { all: memory: MemorySubject, atomic: AtomicSubject }
