//! Waiting for a turn on a shared store.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::ErrorKind;

use super::failing::{Failing, Mood};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_wait_ends_with_the_first_instant_at_which_it_passes() {
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
    store.is_now(Mood::Silent);
    let error = store.run(limiter.wait("a", 1, 5 * SECOND)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(store.calls(), 1, "never sent again");
}

#[test]
fn the_charge_of_a_dropped_wait_is_given_back() {
    let store = Failing::new();
    let limiter = store.limiter("1/hour").deadline(SECOND);
    store.is_now(Mood::Silent);
    {
        let mut wait = Box::pin(limiter.wait("a", 1, SECOND));
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    store.run_tasks();
    store.is_now(Mood::Answers);
    assert_eq!(store.run(limiter.usage("a")).unwrap(), 1, "the request is under way");
    store.run_tasks();
    assert_eq!(store.run(limiter.usage("a")).unwrap(), 0);
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
}
