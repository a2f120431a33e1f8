//! Tests of deadlines and circuit breakers.

use std::time::Duration;

use tollgate::ErrorKind;

use super::failing::{Behaviour, DEADLINE, FAILURES, Failing, PAUSE};

/// Makes failing calls, twice as many as are needed to open the breaker.
fn fail_until_the_breaker_opens(store: &Failing) {
    let limiter = store.limiter("100/second");
    for _ in 0..2 * FAILURES {
        assert!(store.run(limiter.hit("a")).is_err());
        store.clock.advance(DEADLINE);
    }
}

#[test]
fn a_call_without_an_answer_ends_at_its_deadline_as_lost() {
    let store = Failing::new();
    let limiter = store.limiter("1/second");
    store.behaves_as(Behaviour::Silent);
    let error = store.run(limiter.hit("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.is_transient());
    assert_eq!(error.to_string(), "no answer from the store: the deadline of 5ms has passed");
    let error = store.run(limiter.within(Duration::from_secs(1)).hit("a")).unwrap_err();
    assert!(error.to_string().contains("deadline of 1s"), "{error}");
    assert_eq!(store.run(limiter.check()).unwrap_err().kind(), ErrorKind::Lost);
}

#[test]
fn a_store_that_cannot_be_reached_is_not_asked_again_before_the_pause_is_over() {
    for behaviour in [Behaviour::Silent, Behaviour::Unreachable] {
        let store = Failing::new();
        let limiter = store.limiter("100/second");
        store.behaves_as(behaviour);
        fail_until_the_breaker_opens(&store);
        let calls = store.calls();
        for _ in 0..10 {
            let error = store.run(limiter.hit("a")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        assert_eq!(store.calls(), calls, "{behaviour:?}");
        let stats = tollgate::shared::SharedStore::guard(&store).stats();
        assert_eq!(stats.opened, 1);
        assert!(stats.skipped >= 10);
    }
}

#[test]
fn one_successful_probe_closes_the_breaker() {
    let store = Failing::new();
    let limiter = store.limiter("100/second");
    store.behaves_as(Behaviour::Unreachable);
    fail_until_the_breaker_opens(&store);
    store.behaves_as(Behaviour::Answers);
    assert!(store.run(limiter.hit("a")).is_err());
    store.clock.advance(2 * PAUSE);
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
    assert_eq!(store.calls(), 2);
    assert_eq!(limiter.store_stats().closed, 1);
}

#[test]
fn a_dropped_probe_lets_the_next_call_probe() {
    let store = Failing::new();
    let limiter = store.limiter("100/second");
    store.behaves_as(Behaviour::Unreachable);
    fail_until_the_breaker_opens(&store);
    store.clock.advance(2 * PAUSE);
    store.behaves_as(Behaviour::Silent);
    {
        let mut probe = Box::pin(limiter.hit("a"));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(probe.as_mut().poll(&mut cx).is_pending());
        assert!(store.run(limiter.hit("a")).is_err(), "only one probe is sent at a time");
    }
    store.behaves_as(Behaviour::Answers);
    assert!(store.run(limiter.hit("a")).is_ok());
}

#[test]
fn an_error_about_a_key_does_not_open_the_breaker() {
    let store = Failing::new();
    let limiter = store.limiter("100/second");
    store.behaves_as(Behaviour::AnswersWithErrors);
    for _ in 0..10 * FAILURES {
        let error = store.run(limiter.hit("a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        store.clock.advance(DEADLINE);
    }
    store.behaves_as(Behaviour::Answers);
    assert!(store.run(limiter.hit("a")).is_ok());
    assert_eq!(limiter.store_stats().refused, u64::from(10 * FAILURES));
}

#[test]
fn a_call_that_is_not_sent_because_of_overload_does_not_open_the_breaker() {
    let store = Failing::new();
    let limiter = store.limiter("100/second");
    store.behaves_as(Behaviour::Overloaded);
    for _ in 0..10 * FAILURES {
        let error = store.run(limiter.hit("a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    store.behaves_as(Behaviour::Answers);
    assert!(store.run(limiter.hit("a")).is_ok());
    let stats = limiter.store_stats();
    assert_eq!((stats.shed, stats.unavailable), (u64::from(10 * FAILURES), 0));
}

#[test]
fn timeouts_of_callers_with_short_deadlines_do_not_open_the_breaker() {
    let store = Failing::new();
    let limiter = store.limiter("100/second");
    store.behaves_as(Behaviour::Silent);
    for _ in 0..10 * FAILURES {
        assert!(store.run(limiter.within(Duration::from_micros(50)).hit("a")).is_err());
        store.clock.advance(DEADLINE);
    }
    store.behaves_as(Behaviour::Answers);
    assert!(store.run(limiter.hit("a")).is_ok());
}

/// Gives access to the counters of a limiter's store.
trait StoreStats {
    fn store_stats(&self) -> tollgate::shared::Stats;
}

impl<S: tollgate::shared::SharedStore> StoreStats for tollgate::shared::SharedLimiter<S> {
    fn store_stats(&self) -> tollgate::shared::Stats {
        self.store().guard().stats()
    }
}
