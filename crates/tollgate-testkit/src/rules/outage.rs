//! The error path: a store that does not answer. Claimed by `outage`.

use std::time::Duration;

use tollgate::shared::{OnFailure, Share, SharedLimiter, SharedStore, hit_all_shared};
use tollgate::{Clock, Error, ErrorKind, Source, SystemClock, Tagged};

use crate::ground::{Ground, Limited, START, YEAR, limit, on_threads};
use crate::subject::Subject;

/// The deadline while the store is broken.
const SHORT: Duration = Duration::from_millis(100);

/// The delay that a slow machine may add.
const SLACK: Duration = Duration::from_secs(2);

fn break_it<S: Subject>(subject: &S) {
    assert!(subject.break_store(), "`outage` is claimed, but Subject::break_store does nothing");
}

/// A limiter with a short deadline, after one successful call.
fn limited<'s, S: Subject>(ground: &Ground<'s, S>, text: &str) -> Limited<'s, S> {
    let limited = ground.limited(&limit(text)).expect("held by every store");
    assert!(limited.must(limited.inner.hit("before")).allowed(), "the store works at first");
    Limited { inner: limited.inner.deadline(SHORT), ..limited }
}

fn within_the_deadline<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let clock = SystemClock::new();
    let begin = clock.now();
    let result = call();
    let took = clock.now().since(begin);
    assert!(took <= SHORT + SLACK, "{what} took {took:?}");
    result
}

/// Waits until the store answers again, with its breaker closed and its connection restored.
fn until_it_answers<S: Subject>(limited: &Limited<'_, S>) {
    let clock = SystemClock::new();
    let begin = clock.now();
    loop {
        let Err(error) = limited.subject.block_on(limited.inner.peek("mended")) else { return };
        let waited = clock.now().since(begin);
        assert!(waited < Duration::from_secs(30), "mended, but after {waited:?}: {error}");
        let pause = limited.inner.store().guard().runtime().sleep(Duration::from_millis(20));
        limited.subject.block_on(pause);
    }
}

/// Every operation on a broken store is an error of the store within its deadline, never a
/// decision. An open breaker does not change that.
pub fn a_broken_store_gives_errors_in_time<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let limited = limited(&ground, "5/365 days");
    let policy = ground.policy(&"5/365 days; 9/365 days fixed-window".parse().expect("a policy"));
    let policy = policy.expect("held by every store").deadline(SHORT);
    let decision = limited.must(limited.inner.within(SLACK).hit("before"));
    break_it(subject);
    let (call, run) = (&limited.inner, |what: &str, error: Option<Error>| {
        let error = error.unwrap_or_else(|| panic!("{what} was decided by a broken store"));
        let of_store = [ErrorKind::Unavailable, ErrorKind::Lost, ErrorKind::Store];
        assert!(of_store.contains(&error.kind()), "{what}: {:?} {error}", error.kind());
    });
    for round in 0..4 {
        macro_rules! fails {
            ($($what:literal: $call:expr),+ $(,)?) => {
                $(run($what, within_the_deadline($what, || ground.run($call).err()));)+
            };
        }
        fails! {
            "hit": call.hit("key"),
            "hit before": call.hit("before"),
            "peek": call.peek("key"),
            "take": call.take("key", 2),
            "charge": call.charge("key", 1),
            "refund": call.refund("before", &decision),
            "refund_n": call.refund_n("key", 1),
            "set": call.set("key", 1),
            "reset": call.reset("key"),
            "usage": call.usage("key"),
            "hit_each": call.hit_each(&["a", "b"]),
            "policy": policy.hit("key"),
            "hit_all": hit_all_shared(&[call.item(Tagged("t", round), 1)], None),
            "at a time": call.at(START).hit("key"),
            "check": call.check(),
        }
    }
    subject.mend_store();
}

/// A limiter without its store follows its rule: error, open, closed, or a share of the limit. The
/// decisions name it as their source.
pub fn without_the_store_the_rule_of_the_limiter_holds<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let limited = limited(&ground, "8/365 days");
    let on = |on_failure| -> SharedLimiter<S::Store> {
        limited.inner.clone().on_failure(on_failure).expect("a share of eight")
    };
    let (open, closed) = (on(OnFailure::Open), on(OnFailure::Closed));
    let share = Share::one_of(4).expect("one of four");
    let local = on(OnFailure::Local(share));
    break_it(subject);
    let run = |limiter: &SharedLimiter<S::Store>, cost| {
        let hit = within_the_deadline("a hit", || ground.run(limiter.hit_n("key", cost)));
        hit.unwrap_or_else(|error| panic!("an error instead of the rule: {error}"))
    };
    for _ in 0..12 {
        let passed = run(&open, 1);
        assert_eq!((passed.allowed(), passed.source()), (true, Source::FailOpen));
        let refused = run(&closed, 1);
        assert_eq!((refused.allowed(), refused.source()), (false, Source::FailClosed));
        assert!(refused.retry_after().is_some(), "closed for now, not for ever");
    }
    // A cost above the capacity does not pass without the store either.
    assert!(!run(&open, 9).allowed());
    let shares: Vec<bool> = (0..6).map(|_| run(&local, 1)).map(|d| d.allowed()).collect();
    assert_eq!(shares, [true, true, false, false, false, false], "two of eight");
    assert_eq!(run(&local, 1).source(), Source::Fallback);
    let error = ground.run(limited.inner.hit("key"));
    assert!(error.is_err(), "without a rule it is the error");
    subject.mend_store();
}

/// A repaired store answers again without help, and exactly.
pub fn a_mended_store_answers_again<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let limited = limited(&ground, "5/365 days");
    break_it(subject);
    for _ in 0..10 {
        let _ = ground.run(limited.inner.hit("key")).expect_err("a broken store");
    }
    subject.mend_store();
    until_it_answers(&limited);
    let patient = Limited { inner: limited.inner.clone().deadline(SLACK), ..limited };
    let admitted = (0..9).filter(|_| {
        let hit = patient.must(patient.inner.hit("afterwards"));
        hit.allowed() && hit.source() == Source::Store
    });
    assert_eq!(admitted.count(), 5);
}

/// An error says whether the call may have been executed: a call that is
/// [`Unavailable`](ErrorKind::Unavailable) was not. Callers run while the store breaks.
pub fn an_unavailable_call_was_not_executed<S: Subject>(subject: &S) {
    let ground = Ground::new(subject);
    let limited = limited(&ground, "1000000/365 days fixed-window-per-key");
    assert!(limited.limit().period() == YEAR);
    let counts = on_threads(3, |index| {
        let own = ground.again().limited(limited.limit()).expect("held a moment ago");
        let own = own.inner.deadline(SHORT);
        let (mut answered, mut lost) = (0_u64, 0_u64);
        for n in 0..200 {
            if index == 0 && n == 50 {
                break_it(subject);
            }
            match ground.run(own.hit("key")) {
                Ok(hit) => answered += u64::from(hit.allowed()),
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(_) => lost += 1,
            }
        }
        (answered, lost)
    });
    subject.mend_store();
    until_it_answers(&limited);
    let most: u64 = counts.iter().map(|(answered, lost)| answered + lost).sum();
    let patient = limited.inner.clone().deadline(SLACK);
    // A store that lost its states has less.
    let used = limited.must(patient.usage("key"));
    assert!(used <= most, "{used} in use, but only {most} were answered or may have been executed");
}
