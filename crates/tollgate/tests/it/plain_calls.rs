//! Tests of calls on policies, on limits without keys and on several keys.

use std::future::ready;
use std::time::Duration;

use tollgate::shared::{InProcess, SharedLimiter};
use tollgate::shared::{hit_all_shared, refund_all_shared};
use tollgate::{Decision, Direct, ManualClock, Memory, Outcome, Timestamp, hit_all, refund_all};

const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_policy_at_a_given_time_answers_for_that_time() {
    let policy = Memory::new().limiter("2/second fixed-window; 3/hour").expect("a policy");
    let (first, later) = (policy.at(START), policy.at(START + SECOND));
    assert!(first.hit_n("a", 2).allowed());
    assert!(!first.peek("a").allowed());
    assert!(later.hit("a").allowed());
    assert_eq!(used(&later.peek("a")), [1, 3]);
    assert!(!later.hit("a").allowed());
    later.set("a", 0);
    later.charge("a", 2);
    later.refund_n("a", 1);
    assert_eq!(used(&later.peek("a")), [1, 1]);
    assert!(later.reset("a"));
}

#[test]
fn a_take_grants_as_many_units_as_fit_all_limits_of_a_policy() {
    let policy = Memory::new().limiter("5/hour; 9/day").expect("a policy");
    let take = |cost| {
        let taken = policy.at(START).take("a", cost);
        (taken.allowed(), taken.receipts().map(|receipt| receipt.units).collect::<Vec<_>>())
    };
    assert_eq!(take(0), (true, vec![0, 0]));
    assert_eq!(take(3), (true, vec![3, 3]));
    assert_eq!(take(3), (true, vec![2, 2]));
    assert_eq!(take(3), (false, vec![0, 0]));
    let denied = policy.at(START).take("a", 3);
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(720)), "the wait for one unit");
}

#[test]
fn takes_by_many_threads_get_exactly_the_limit_of_a_policy() {
    let policy = Memory::new().limiter("1000/hour; 700/day").expect("a policy");
    let (policy, now) = (&policy, START);
    let take_all = move || {
        let mut taken = 0;
        loop {
            let step = policy.at(now).take("a", 7);
            if !step.allowed() {
                return taken;
            }
            taken += step.headline().charged();
        }
    };
    let taken: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take_all)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(taken, 700);
}

/// Returns the result of a future that is ready at its first poll.
fn ready_now<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future is not ready"),
    }
}

#[test]
fn waits_work_on_policies_and_on_limits_without_keys() {
    let clock = ManualClock::new(START);
    let sleep = |span| {
        clock.advance(span);
        ready(())
    };
    let store = Memory::builder().clock(clock.clone()).build();
    let policy = store.limiter("1/second; 2/minute burst=2").expect("a policy");
    let direct = Direct::with_clock("1/second", clock.clone()).expect("a limit");
    let elapsed = |since: Timestamp| tollgate::Clock::now(&clock).since(since);

    let wait = || ready_now(policy.wait("a", 1, 5 * SECOND, sleep)).allowed();
    assert_eq!([wait(), wait()], [true, true]);
    assert_eq!(elapsed(START), SECOND, "the second hit waits for the limit per second");
    assert!(!wait(), "the wait for the limit per minute is too long");
    assert_eq!(elapsed(START), SECOND);

    let start = START + SECOND;
    let wait = || ready_now(direct.wait(1, 5 * SECOND, sleep)).allowed();
    assert_eq!([wait(), wait(), wait()], [true, true, true]);
    assert_eq!(elapsed(start), 2 * SECOND);
}

#[test]
fn a_hit_on_several_keys_has_a_headline_and_can_be_refunded() {
    let store = Memory::new();
    let accounts = store.limiter("5/hour").expect("a limit");
    let addresses = store.limiter("3/hour; 9/day").expect("a policy");
    let items = [accounts.item("alice", 2), addresses.item("192.0.2.1", 3)];
    let both = hit_all(&items).expect("sensible");
    assert_eq!((both.headline_index(), both.headline().limit()), (1, 3));
    let denied = hit_all(&items).expect("sensible");
    assert!(!denied.allowed());
    assert_eq!(denied.headline_index(), 1, "the only limit that denies");
    refund_all(&items, &denied).expect("the same items");
    assert_eq!(accounts.usage("alice"), 2, "a denial has charged nothing");
    assert!(refund_all(&items, &both).expect("the same items").allowed());
    assert_eq!(accounts.usage("alice"), 0);
    assert_eq!(used(&addresses.peek("192.0.2.1")), [0, 0]);
    let error = refund_all(&items[..1], &both).expect_err("other items");
    assert_eq!(
        error.to_string(),
        "a decision on 3 limits cannot be refunded with these items: they have 1 limits"
    );
}

#[test]
fn a_hit_on_several_keys_of_a_shared_store_can_be_refunded() {
    let store = InProcess::new(Memory::new());
    let accounts = SharedLimiter::new(&store, "", "5/hour").expect("a limit");
    let addresses = SharedLimiter::new(&store, "", "3/hour; 9/day").expect("a policy");
    let items = [accounts.item("alice", 2), addresses.item("192.0.2.1", 3)];
    let both = ready_now(hit_all_shared(&items, None)).expect("an answer");
    assert!(both.allowed());
    ready_now(refund_all_shared(&items, &both, None)).expect("an answer");
    assert_eq!(ready_now(accounts.usage("alice")).expect("an answer"), 0);
    assert_eq!(used(&ready_now(addresses.peek("192.0.2.1")).expect("an answer")), [0, 0]);
    assert!(ready_now(refund_all_shared(&items[1..], &both, None)).is_err());
}

/// Returns the units in use of each limit.
fn used(decision: &Decision) -> Vec<u64> {
    decision.outcomes().iter().map(Outcome::used).collect()
}
