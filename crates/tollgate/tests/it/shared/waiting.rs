//! Tests of waiting until a hit on a shared store is allowed.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::ErrorKind;

use super::failing::{Behaviour, Failing};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_wait_ends_when_the_hit_is_allowed() {
    let store = Failing::new();
    let limiter = store.limiter("1/second burst=1");
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
    assert!(store.run(limiter.wait("a", 1, 5 * SECOND)).unwrap().allowed());
    assert!(!store.run(limiter.wait("a", 1, SECOND / 2)).unwrap().allowed());
}

#[test]
fn a_wait_whose_answer_is_lost_ends_with_the_error() {
    let store = Failing::new();
    let limiter = store.limiter("1/second burst=1");
    store.behaves_as(Behaviour::Silent);
    let error = store.run(limiter.wait("a", 1, 5 * SECOND)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(store.calls(), 1, "the hit is not sent again");
}

#[test]
fn the_charge_of_a_dropped_wait_is_refunded() {
    let store = Failing::new();
    let limiter = store.limiter("1/hour").deadline(SECOND);
    store.behaves_as(Behaviour::Silent);
    {
        let mut wait = Box::pin(limiter.wait("a", 1, SECOND));
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    store.run_tasks();
    store.behaves_as(Behaviour::Answers);
    assert_eq!(
        store.run(limiter.usage("a")).unwrap(),
        1,
        "the hit was executed, and its answer has not arrived yet"
    );
    store.run_tasks();
    assert_eq!(store.run(limiter.usage("a")).unwrap(), 0);
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
}
