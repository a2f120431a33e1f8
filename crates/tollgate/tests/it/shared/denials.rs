//! Tests of remembered denials: as long as they are used they are correct, and they are dropped as
//! soon as they may be wrong.

use std::time::Duration;

use tollgate::shared::{SharedLimiter, SharedStore};
use tollgate::{Decision, Key as _, Outcome, Source};

use super::failing::{Behaviour, Failing};

const SECOND: Duration = Duration::from_secs(1);

/// Returns all fields of a decision.
fn fields(d: &Outcome) -> (bool, u64, u64, u64, Option<Duration>, Duration) {
    (d.allowed(), d.limit(), d.remaining(), d.used(), d.retry_after(), d.reset_after())
}

#[test]
fn a_denial_is_repeated_without_the_store_until_it_ends() {
    for limit in ["2/minute", "2/minute token-bucket", "2/minute sliding-window"] {
        let store = Failing::new();
        let limiter = store.limiter(limit);
        assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
        let first = store.run(limiter.hit("a")).unwrap();
        assert_eq!((first.allowed(), first.source()), (false, Source::Store));
        let calls = store.calls();
        store.clock.advance(SECOND);
        let again = store.run(limiter.hit("a")).unwrap();
        assert_eq!(again.source(), Source::DenialCache);
        assert_eq!(
            fields(again.headline()),
            fields(store.run(limiter.peek("a")).unwrap().headline()),
            "{limit}"
        );
        assert_eq!(store.calls(), calls + 1, "only the peek called the store");
        store.clock.advance(again.retry_after().unwrap());
        let at_last = store.run(limiter.hit("a")).unwrap();
        assert_eq!((at_last.allowed(), at_last.source()), (true, Source::Store), "{limit}");
    }
}

#[test]
fn a_change_announced_by_another_process_drops_the_remembered_denial() {
    let store = Failing::new();
    let limiter = store.limiter("1/minute");
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the path is not general enough")]
    let digest = |key: &str| key.with_key(|key| key.digest());
    for key in ["a", "b"] {
        assert!(store.run(limiter.hit(key)).unwrap().allowed());
        assert_eq!(store.run(limiter.hit(key)).unwrap().source(), Source::Store);
    }
    store.guard().forget_digest(digest("a"));
    assert_eq!(store.run(limiter.hit("b")).unwrap().source(), Source::DenialCache);
    // The store is asked once, and its answer is then remembered again.
    assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::Store);
    assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::DenialCache);
}

#[test]
fn a_denial_of_a_long_key_is_remembered_and_forgotten_with_a_refund() {
    let store = Failing::new();
    let limiter = store.limiter("1/minute");
    let long = "x".repeat(100_000);
    let keys = [(long.clone(), 1), (long, 2)];
    for key in &keys {
        let decision = store.run(limiter.hit(key)).unwrap();
        assert_eq!(store.run(limiter.hit(key)).unwrap().source(), Source::Store);
        assert_eq!(store.run(limiter.hit(key)).unwrap().source(), Source::DenialCache);
        assert_eq!(store.run(limiter.refund(key, &decision)).unwrap().used(), 0);
        assert!(store.run(limiter.hit(key)).unwrap().allowed());
    }
}

#[test]
fn costs_at_least_as_large_as_a_denied_one_are_denied_with_their_own_wait() {
    let store = Failing::new();
    let limiter = store.limiter("1/second burst=10");
    assert!(store.run(limiter.hit_n("a", 7)).unwrap().allowed());
    assert!(!store.run(limiter.hit_n("a", 5)).unwrap().allowed());
    let calls = store.calls();
    for cost in [5, 6, 10, 11] {
        let remembered = store.run(limiter.hit_n("a", cost)).unwrap();
        assert_eq!(remembered.source(), Source::DenialCache);
        let asked = store.run(limiter.peek_n("a", cost)).unwrap();
        assert_eq!(fields(remembered.headline()), fields(asked.headline()), "cost {cost}");
    }
    assert_eq!(store.calls(), calls + 4, "only the peeks called the store");
    assert!(store.run(limiter.hit_n("a", 3)).unwrap().allowed(), "a smaller cost may pass");
}

#[test]
fn a_larger_cost_than_the_denied_one_is_sent_to_the_store_for_a_moving_window() {
    let store = Failing::new();
    let limiter = store.limiter("10/minute moving-window");
    let _ = store.run(limiter.hit_n("a", 4)).unwrap();
    store.clock.advance(SECOND);
    let _ = store.run(limiter.hit_n("a", 4)).unwrap();
    assert!(!store.run(limiter.hit_n("a", 3)).unwrap().allowed());
    assert_eq!(store.run(limiter.hit_n("a", 3)).unwrap().source(), Source::DenialCache);
    let larger = store.run(limiter.hit_n("a", 7)).unwrap();
    assert_eq!(
        larger.source(),
        Source::Store,
        "the wait for a larger cost is not known without the store"
    );
    assert_eq!(larger.retry_after(), Some(Duration::from_secs(60)));
}

#[test]
fn refunds_sets_and_resets_end_a_remembered_denial() {
    let store = Failing::new();
    let limiter = store.limiter("2/hour");
    let decision = store.run(limiter.hit_n("a", 2)).unwrap();
    let denied = || {
        assert!(!store.run(limiter.hit_n("a", 2)).unwrap().allowed());
        assert_eq!(store.run(limiter.hit_n("a", 2)).unwrap().source(), Source::DenialCache);
    };
    denied();
    let _ = store.run(limiter.refund("a", &decision)).unwrap();
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
    denied();
    let _ = store.run(limiter.refund_n("a", 2)).unwrap();
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
    denied();
    let _ = store.run(limiter.set("a", 0)).unwrap();
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
    denied();
    store.run(limiter.reset("a")).unwrap();
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
    denied();
    store.run(limiter.clear()).unwrap();
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
}

#[test]
fn a_refund_through_one_limiter_is_seen_by_another() {
    let store = Failing::new();
    let (one, other) = (store.limiter("1/hour"), store.limiter("1/hour"));
    let decision = store.run(one.hit("a")).unwrap();
    assert!(!store.run(other.hit("a")).unwrap().allowed());
    let _ = store.run(one.refund("a", &decision)).unwrap();
    assert!(store.run(other.hit("a")).unwrap().allowed());
}

#[test]
fn a_denial_decided_before_a_refund_and_received_after_it_is_not_remembered() {
    let store = Failing::new();
    let limiter = store.limiter("1/hour");
    let decision = store.run(limiter.hit("a")).unwrap();
    store.behaves_as(Behaviour::Silent);
    let patient = limiter.within(SECOND);
    let mut late = Box::pin(patient.hit("a"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(late.as_mut().poll(&mut cx).is_pending());
    store.behaves_as(Behaviour::Answers);
    let _ = store.run(limiter.refund("a", &decision)).unwrap();
    assert!(!store.run(late).unwrap().allowed(), "it was decided before the refund");
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
}

#[test]
fn denials_that_change_the_state_are_never_remembered() {
    for limit in ["1/minute elastic-window", "1/minute fixed-window charge-denied"] {
        let store = Failing::new();
        let limiter = store.limiter(limit);
        for _ in 0..5 {
            assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::Store);
        }
        assert_eq!(store.calls(), 5, "{limit}");
    }
}

#[test]
fn a_cost_that_never_fits_is_not_remembered() {
    let store = Failing::new();
    let limiter = store.limiter("2/minute");
    for _ in 0..3 {
        let never = store.run(limiter.hit_n("a", 3)).unwrap();
        assert_eq!((never.retry_after(), never.source()), (None, Source::Store));
    }
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
}

#[test]
fn a_raised_quota_is_not_denied_by_remembered_denials_of_the_old_quota() {
    let store = Failing::new();
    let small = store.limiter("1/hour fixed-window name=plan");
    let large = store.limiter("5/hour fixed-window name=plan");
    assert!(store.run(small.hit("a")).unwrap().allowed());
    assert!(!store.run(small.hit("a")).unwrap().allowed());
    assert!(store.run(large.hit("a")).unwrap().allowed());
}

#[test]
fn a_denial_of_a_policy_is_remembered_with_all_its_limits() {
    let store = Failing::new();
    let policy = SharedLimiter::new(&store, "", "2/minute; 5/hour").unwrap();
    assert!(store.run(policy.hit_n("a", 2)).unwrap().allowed());
    assert!(!store.run(policy.hit("a")).unwrap().allowed());
    let calls = store.calls();
    store.clock.advance(SECOND);
    let remembered = store.run(policy.hit("a")).unwrap();
    assert_eq!(store.calls(), calls);
    let asked = store.run(policy.peek("a")).unwrap();
    for (remembered, asked) in remembered.outcomes().iter().zip(asked.outcomes()) {
        assert_eq!(remembered.source(), Source::DenialCache);
        assert_eq!(fields(remembered), fields(asked));
    }
    let mixed = SharedLimiter::new(&store, "", "1/minute; 5/hour elastic-window").unwrap();
    let calls = store.calls();
    for _ in 0..4 {
        let _ = store.run(mixed.hit("a")).unwrap();
    }
    assert_eq!(
        store.calls(),
        calls + 4,
        "each denied hit must extend the elastic window in the store"
    );
}

#[test]
fn remembering_denials_can_be_switched_off_and_is_bounded() {
    let off = Failing::with(|guard| guard.remember_denials(0));
    let limiter = off.limiter("1/hour");
    for _ in 0..5 {
        assert_eq!(off.run(limiter.hit("a")).unwrap().source(), Source::Store);
    }
    let small = Failing::with(|guard| guard.remember_denials(64));
    let limiter = small.limiter("1/hour");
    let mut remembered = 0;
    for key in 0..10_000_u32 {
        let _ = small.run(limiter.hit_n(key, 1)).unwrap();
        let _ = small.run(limiter.hit_n(key, 1)).unwrap();
    }
    for key in 0..10_000_u32 {
        remembered += u32::from(small.run(limiter.hit(key)).unwrap().source() != Source::Store);
    }
    assert!((1..=64).contains(&remembered), "{remembered}");
    assert_eq!(small.guard().stats().remembered, u64::from(remembered));
}

#[test]
fn a_reset_by_another_process_is_seen_after_two_seconds() {
    let store = Failing::new();
    let limiter = store.limiter("1/hour");
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
    assert!(!store.run(limiter.hit("a")).unwrap().allowed());
    let elsewhere = SharedLimiter::new(store.directly(), "", "1/hour").unwrap();
    assert!(store.run(elsewhere.reset("a")).unwrap());
    store.clock.advance(2 * SECOND - Duration::from_micros(1));
    assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::DenialCache);
    store.clock.advance(Duration::from_micros(1));
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
}

#[test]
fn the_time_for_which_denials_are_remembered_can_be_shortened() {
    let store = Failing::with(|guard| guard.denials_for(SECOND));
    let limiter = store.limiter("1/hour");
    let _ = store.run(limiter.hit("a")).unwrap();
    let _ = store.run(limiter.hit("a")).unwrap();
    assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::DenialCache);
    store.clock.advance(SECOND);
    assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::Store);
}

#[test]
fn a_call_on_many_keys_uses_remembered_denials() {
    let store = Failing::new();
    let limiter = store.limiter("1/hour");
    let first = store.run(limiter.hit_each(&["a", "b", "a"])).unwrap();
    let allowed: Vec<bool> = first.iter().map(Decision::allowed).collect();
    assert_eq!(allowed, [true, true, false]);
    let _ = store.run(limiter.hit_each(&["a"])).unwrap();
    let calls = store.calls();
    let again = store.run(limiter.hit_each(&["a", "c"])).unwrap();
    assert_eq!((again[0].source(), again[1].source()), (Source::DenialCache, Source::Store));
    assert_eq!(store.calls(), calls + 1);
    let _ = store.run(limiter.hit_each(&["a"])).unwrap();
    assert_eq!(store.calls(), calls + 1, "the answer is remembered");
}

#[test]
fn an_allowed_hit_of_this_process_replaces_a_remembered_denial() {
    let store = Failing::new();
    let limiter = store.limiter("10/minute");
    let hit = |cost| store.run(limiter.hit_n("a", cost)).unwrap();
    assert!(hit(8).allowed());
    let reported = |decision: &Decision| (decision.used(), decision.retry_after());
    assert_eq!(reported(&hit(5)), (8, Some(18 * SECOND)));
    assert!(hit(2).allowed());
    assert_eq!(reported(&hit(5)), (10, Some(30 * SECOND)));
    let again = hit(5);
    assert_eq!((again.source(), again.used()), (Source::DenialCache, 10));
}

#[test]
fn a_denial_decided_before_a_charge_and_received_after_it_is_not_remembered() {
    let store = Failing::new();
    let limiter = store.limiter("10/minute");
    assert!(store.run(limiter.hit_n("a", 8)).unwrap().allowed());
    store.behaves_as(Behaviour::Silent);
    let patient = limiter.within(SECOND);
    let mut late = Box::pin(patient.hit_n("a", 5));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(late.as_mut().poll(&mut cx).is_pending());
    store.behaves_as(Behaviour::Answers);
    assert!(store.run(limiter.hit_n("a", 2)).unwrap().allowed());
    assert_eq!(store.run(late).unwrap().used(), 8, "it was decided before the second hit");
    assert_eq!(store.run(limiter.hit_n("a", 5)).unwrap().used(), 10);
}

#[test]
fn a_call_that_was_not_executed_does_not_end_a_remembered_denial() {
    let store = Failing::new();
    let limiter = store.limiter("10/minute");
    let _ = store.run(limiter.hit_n("a", 8)).unwrap();
    let _ = store.run(limiter.hit_n("a", 5)).unwrap();
    store.behaves_as(Behaviour::Unreachable);
    assert!(store.run(limiter.hit("a")).is_err());
    assert_eq!(store.run(limiter.hit_n("a", 5)).unwrap().source(), Source::DenialCache);
}

/// Charges under one limit do not affect the remembered denials of the same key under another
/// limit.
#[test]
fn a_charge_under_another_limit_does_not_end_a_remembered_denial() {
    let store = Failing::new();
    let (small, large) = (store.limiter("1/hour"), store.limiter("100/hour"));
    let _ = store.run(small.hit_n("a", 1)).unwrap();
    assert!(!store.run(small.hit("a")).unwrap().allowed());
    for _ in 0..5 {
        assert!(store.run(large.hit("a")).unwrap().allowed());
        assert_eq!(store.run(small.hit("a")).unwrap().source(), Source::DenialCache);
    }
}
