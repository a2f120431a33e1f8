//! Tests of the answers of a limiter whose store does not answer.

use std::time::Duration;

use tollgate::shared::{OnFailure, Share, SharedLimiter, SharedStore, hit_all_shared};
use tollgate::{ErrorKind, Source};

use super::failing::{Behaviour, Failing, PAUSE};

fn failing(store: &Failing, limit: &str, rule: OnFailure) -> SharedLimiter<Failing> {
    store.limiter(limit).on_failure(rule).unwrap_or_else(|error| panic!("{limit}: {error}"))
}

fn local(processes: u32) -> OnFailure {
    OnFailure::Local(Share::one_of(processes).expect("a share"))
}

#[test]
fn without_a_failure_rule_the_caller_gets_the_error() {
    let store = Failing::new();
    let limiter = store.limiter("5/second");
    for (behaviour, kind) in [
        (Behaviour::Unreachable, ErrorKind::Unavailable),
        (Behaviour::Silent, ErrorKind::Lost),
        (Behaviour::AnswersWithErrors, ErrorKind::Store),
    ] {
        store.behaves_as(behaviour);
        assert_eq!(store.run(limiter.hit("a")).unwrap_err().kind(), kind);
    }
}

#[test]
fn a_limiter_that_fails_open_allows_every_cost_within_the_capacity() {
    let store = Failing::new();
    let limiter = failing(&store, "3/second", OnFailure::Open);
    store.behaves_as(Behaviour::Unreachable);
    for _ in 0..10 {
        let decision = store.run(limiter.hit("a")).unwrap();
        assert_eq!((decision.allowed(), decision.source()), (true, Source::FailOpen));
    }
    assert_eq!(store.run(limiter.hit_n("a", 4)).unwrap().retry_after(), None);
    assert_eq!(store.run(limiter.take("a", 5)).unwrap().charged(), 3);
    assert!(store.run(limiter.peek("a")).unwrap().allowed());
    assert_eq!(store.guard().stats().failed_open, 13);
}

#[test]
fn a_limiter_that_fails_closed_denies_every_hit_until_the_store_is_asked_again() {
    let store = Failing::new();
    let limiter = failing(&store, "3/second", OnFailure::Closed);
    store.behaves_as(Behaviour::AnswersWithErrors);
    let decision = store.run(limiter.hit("a")).unwrap();
    assert_eq!((decision.allowed(), decision.source()), (false, Source::FailClosed));
    assert_eq!((decision.limit(), decision.remaining()), (3, 0));
    assert_eq!(decision.retry_after(), Some(PAUSE));
    assert_eq!(store.run(limiter.hit_n("a", 4)).unwrap().retry_after(), None);
    assert_eq!(store.run(limiter.take("a", 2)).unwrap().charged(), 0);
}

#[test]
fn the_wait_of_a_limiter_that_fails_closed_is_the_pause_of_the_breaker() {
    let store = Failing::new();
    let limiter = failing(&store, "3/second", OnFailure::Closed);
    let policy = SharedLimiter::new(&store, "", "3/second; 9/minute").unwrap();
    let policy = policy.on_failure(OnFailure::Closed).unwrap();
    store.behaves_as(Behaviour::Unreachable);
    // Failures that last for some time open the breaker, and each failed probe doubles its pause.
    for _ in 0..200 {
        store.clock.advance(PAUSE / 2);
        let _ = store.run(limiter.hit("a")).unwrap();
    }
    let opened = store.guard().stats().opened;
    assert_eq!(opened, 1);
    // Looks for a time that is not near the end of a pause, so that the wait is longer than the
    // shortest pause.
    let long_wait = |_| {
        store.clock.advance(PAUSE / 2);
        let wait = store.run(limiter.hit("a")).unwrap().retry_after().unwrap();
        (wait > PAUSE).then_some(wait)
    };
    let wait = (0..200).find_map(long_wait).expect("a pause that doubled");
    assert_eq!(store.run(policy.hit("a")).unwrap().retry_after(), Some(wait));
    // The store is asked again at that time, and not earlier.
    store.behaves_as(Behaviour::Answers);
    let calls = store.calls();
    store.clock.advance(wait - Duration::from_micros(1));
    assert_eq!(store.run(limiter.hit("a")).unwrap().source(), Source::FailClosed);
    assert_eq!(store.calls(), calls);
    store.clock.advance(Duration::from_micros(1));
    assert!(store.run(limiter.hit("a")).unwrap().allowed());
}

#[test]
fn usage_is_an_error_without_the_store_even_if_the_limiter_has_a_rule_for_failures() {
    let store = Failing::new();
    for rule in [OnFailure::Error, OnFailure::Open, OnFailure::Closed, local(2)] {
        let limiter = failing(&store, "3/second", rule);
        let policy = SharedLimiter::new(&store, "", "3/second; 9/minute").unwrap();
        let policy = policy.on_failure(rule).unwrap();
        for behaviour in [Behaviour::Unreachable, Behaviour::Silent, Behaviour::AnswersWithErrors] {
            store.behaves_as(behaviour);
            assert!(store.run(limiter.usage("a")).is_err(), "{rule:?} {behaviour:?}");
            assert!(store.run(policy.usage("a")).is_err(), "{rule:?} {behaviour:?}");
            store.behaves_as(Behaviour::Answers);
            store.clock.advance(20 * PAUSE);
            assert_eq!(store.run(limiter.usage("a")).unwrap(), 0);
        }
    }
}

#[test]
fn refunds_sets_and_resets_are_errors_without_the_store() {
    let store = Failing::new();
    for rule in [OnFailure::Open, OnFailure::Closed, local(2)] {
        let limiter = failing(&store, "3/second", rule);
        let decision = store.run(limiter.hit("a")).unwrap();
        store.behaves_as(Behaviour::AnswersWithErrors);
        assert!(store.run(limiter.refund("a", &decision)).is_err());
        assert!(store.run(limiter.refund_n("a", 1)).is_err());
        assert!(store.run(limiter.set("a", 1)).is_err());
        assert!(store.run(limiter.reset("a")).is_err());
        assert!(store.run(limiter.clear()).is_err());
        assert!(store.run(limiter.check()).is_err());
        store.behaves_as(Behaviour::Answers);
        assert!(store.run(limiter.reset("a")).unwrap());
    }
}

#[test]
fn the_fallback_admits_exactly_its_share() {
    let store = Failing::new();
    let limiter = failing(&store, "100/minute", local(4));
    store.behaves_as(Behaviour::Unreachable);
    let mut admitted = 0;
    for _ in 0..200 {
        let decision = store.run(limiter.hit("a")).unwrap();
        assert_eq!((decision.source(), decision.limit()), (Source::Fallback, 25));
        admitted += u32::from(decision.allowed());
    }
    assert_eq!(admitted, 25);
    assert_eq!(store.guard().stats().fallback, 200);
}

#[test]
fn the_fallback_starts_with_the_usage_of_the_store() {
    for limit in ["100/hour", "100/hour fixed-window-per-key", "100/hour moving-window"] {
        let store = Failing::new();
        let limiter = failing(&store, limit, local(4));
        for _ in 0..60 {
            assert!(store.run(limiter.hit("a")).unwrap().allowed());
        }
        store.behaves_as(Behaviour::Unreachable);
        let first = store.run(limiter.hit("a")).unwrap();
        assert_eq!((first.source(), first.remaining()), (Source::Fallback, 9), "{limit}");
    }
}

#[test]
fn the_fallback_also_counts_units_that_other_processes_charged() {
    let store = Failing::new();
    let limiter = failing(&store, "100/hour", local(4));
    let _ = store.run(store.limiter("100/hour").hit_n("a", 100)).unwrap();
    assert!(!store.run(limiter.hit("a")).unwrap().allowed(), "the store denies the hit");
    store.behaves_as(Behaviour::Unreachable);
    assert!(!store.run(limiter.within(Duration::from_secs(1)).hit_n("a", 2)).unwrap().allowed());
}

#[test]
fn a_refund_to_the_store_does_not_remove_units_that_the_fallback_admitted() {
    let store = Failing::new();
    let limiter = failing(&store, "100/hour", local(4));
    let decision = store.run(limiter.hit("a")).unwrap();
    store.behaves_as(Behaviour::AnswersWithErrors);
    let admit = || (0..50).filter(|_| store.run(limiter.hit("a")).unwrap().allowed()).count();
    assert_eq!(admit(), 24);
    store.behaves_as(Behaviour::Answers);
    let _ = store.run(limiter.refund("a", &decision)).unwrap();
    store.behaves_as(Behaviour::AnswersWithErrors);
    assert_eq!(admit(), 0);
}

#[test]
fn a_refund_of_a_fallback_charge_goes_to_the_fallback() {
    let store = Failing::new();
    let limiter = failing(&store, "8/hour", local(4));
    store.behaves_as(Behaviour::AnswersWithErrors);
    let decision = store.run(limiter.hit_n("a", 2)).unwrap();
    assert!(!store.run(limiter.hit("a")).unwrap().allowed());
    let _ = store.run(limiter.refund("a", &decision)).unwrap();
    store.behaves_as(Behaviour::Answers);
    assert_eq!(
        store.run(limiter.usage("a")).unwrap(),
        0,
        "the store was not charged for the fallback's hit"
    );
    let _ = store.run(limiter.charge("a", 8)).unwrap();
    let other = store.limiter("8/hour");
    let _ = store.run(other.refund("a", &decision)).unwrap();
    assert_eq!(store.run(limiter.usage("a")).unwrap(), 8);
}

#[test]
fn receipts_of_the_store_and_of_the_fallback_are_refunded_in_one_call() {
    let store = Failing::new();
    let limiter = failing(&store, "8/hour fixed-window", local(2));
    let hit = |units| {
        let decision = store.run(limiter.hit_n("a", units)).unwrap();
        let receipts: Vec<_> = limiter.wire_receipts("a", &decision).collect();
        (decision.source(), receipts[0])
    };
    let charged_store = hit(2);
    store.behaves_as(Behaviour::AnswersWithErrors);
    let charged_fallback = hit(3);
    assert_eq!((charged_store.0, charged_fallback.0), (Source::Store, Source::Fallback));
    let both = [charged_fallback.1, charged_store.1];
    let refund = || store.run(limiter.refund_wire_receipts("a", &both, None));
    assert_eq!(refund().unwrap_err().kind(), ErrorKind::Store);
    assert_eq!(store.run(limiter.peek("a")).unwrap().used(), 4, "the fallback refunded nothing");
    let only_fallback = store.run(limiter.refund_wire_receipts("a", &both[..1], Some(1))).unwrap();
    assert_eq!(only_fallback.decision.source(), Source::Fallback);
    assert_eq!(only_fallback.decision.used(), 3);
    store.behaves_as(Behaviour::Answers);
    let refund = refund().unwrap();
    assert_eq!((refund.decision.source(), refund.ignored.len()), (Source::Store, 0));
    assert_eq!(store.run(limiter.usage("a")).unwrap(), 0);
}

#[test]
fn a_hit_that_failed_open_has_no_receipt() {
    let store = Failing::new();
    let limiter = failing(&store, "8/hour", OnFailure::Open);
    store.behaves_as(Behaviour::Unreachable);
    let decision = store.run(limiter.hit_n("a", 2)).unwrap();
    assert!(decision.allowed());
    assert_eq!(limiter.wire_receipts("a", &decision).count(), 0);
}

/// Returns how many hits a limit of 100 admits in one process, with and without the store, during
/// three outages.
fn admitted_in_outages(store: &Failing, limit: &str) -> usize {
    let limiter = failing(store, limit, local(1));
    let hit = || store.run(limiter.hit("a")).expect("the fallback decides");
    let hits = |count: usize| (0..count).filter(|_| hit().allowed()).count();
    let mut admitted = 0;
    for _ in 0..3 {
        store.behaves_as(Behaviour::Unreachable);
        admitted += hits(20);
        store.behaves_as(Behaviour::Answers);
        store.clock.advance(PAUSE * 11);
        admitted += hits(20);
    }
    admitted + hits(100)
}

#[test]
fn the_store_is_charged_for_units_that_the_fallback_admitted() {
    for limit in [
        "100/365 days",
        "100/365 days fixed-window",
        "100/365 days fixed-window-per-key",
        "100/365 days moving-window",
        "100/365 days sliding-window",
        "100/365 days token-bucket",
    ] {
        assert_eq!(admitted_in_outages(&Failing::new(), limit), 100, "{limit}");
        let uncharged = Failing::with(|guard| guard.charge_local(false));
        assert_eq!(admitted_in_outages(&uncharged, limit), 160, "{limit}");
    }
}

#[test]
fn the_store_is_charged_for_keys_without_further_calls() {
    let store = Failing::new();
    let limiter = failing(&store, "100/365 days", local(1));
    let usage = || {
        store
            .run(SharedLimiter::new(store.directly(), "", "100/365 days").unwrap().usage("a"))
            .unwrap()
    };
    store.behaves_as(Behaviour::AnswersWithErrors);
    assert!(store.run(limiter.hit_n("a", 30)).unwrap().allowed());
    store.run_tasks();
    assert_eq!(usage(), 0);
    store.behaves_as(Behaviour::Answers);
    store.clock.advance(PAUSE);
    store.run_tasks();
    assert_eq!(usage(), 30);
    store.clock.advance(PAUSE);
    store.run_tasks();
    assert_eq!(usage(), 30, "the units are charged only once");
}

#[test]
fn only_units_that_still_count_are_charged_to_the_store() {
    let store = Failing::new();
    let limiter = failing(&store, "100/second fixed-window", local(1));
    store.behaves_as(Behaviour::AnswersWithErrors);
    assert!(store.run(limiter.hit_n("a", 30)).unwrap().allowed());
    store.behaves_as(Behaviour::Answers);
    store.clock.advance(Duration::from_secs(1));
    assert_eq!(store.run(limiter.usage("a")).unwrap(), 0);
}

#[test]
fn each_limit_of_a_policy_and_each_key_of_a_group_is_charged_to_the_store() {
    let store = Failing::new();
    let policy = SharedLimiter::new(&store, "", "40/365 days; 80/364 days").unwrap();
    let policy = policy.on_failure(local(1)).unwrap();
    let limiter = failing(&store, "90/365 days", local(1));
    store.behaves_as(Behaviour::AnswersWithErrors);
    assert!(store.run(policy.hit_n("a", 30)).unwrap().allowed());
    let group = [limiter.item("b", 5), policy.item("b", 6)];
    assert!(store.run(hit_all_shared(&group, None)).unwrap().allowed());
    store.behaves_as(Behaviour::Answers);
    assert!(!store.run(policy.hit_n("a", 11)).unwrap().allowed());
    assert!(store.run(policy.hit_n("a", 10)).unwrap().allowed());
    assert!(store.run(hit_all_shared(&group, None)).unwrap().allowed());
    assert_eq!(store.run(limiter.usage("b")).unwrap(), 10);
}

#[test]
fn a_cost_above_the_share_but_within_the_limit_has_a_wait() {
    let store = Failing::new();
    let limiter = failing(&store, "100/minute", local(10));
    store.behaves_as(Behaviour::AnswersWithErrors);
    let large = store.run(limiter.hit_n("a", 20)).unwrap();
    assert_eq!((large.allowed(), large.retry_after()), (false, Some(PAUSE)));
    assert_eq!(store.run(limiter.hit_n("a", 101)).unwrap().retry_after(), None);
}

#[test]
fn a_share_is_greater_than_zero_and_at_most_one() {
    assert_eq!(Share::new(2, 8).unwrap(), Share::one_of(4).unwrap());
    let error = Share::new(5, 4).unwrap_err();
    assert_eq!(error.to_string(), "share 5/4: must be greater than 0 and at most 1");
    assert!(Share::new(0, 4).is_err());
    assert!(Share::one_of(0).is_err());
}

#[test]
fn policies_follow_the_same_rules_for_failures_as_single_limits() {
    let store = Failing::new();
    let on = |rule| {
        SharedLimiter::new(&store, "", "4/second; 8/minute").unwrap().on_failure(rule).unwrap()
    };
    store.behaves_as(Behaviour::AnswersWithErrors);
    assert!(store.run(on(OnFailure::Error).hit("a")).is_err());
    assert!(store.run(on(OnFailure::Open).hit("a")).unwrap().allowed());
    assert!(!store.run(on(OnFailure::Closed).hit("a")).unwrap().allowed());
    let halves = on(local(2));
    let first = store.run(halves.hit_n("a", 2)).unwrap();
    assert!(first.allowed());
    assert!(!store.run(halves.hit("a")).unwrap().allowed());
    let _ = store.run(halves.refund("a", &first)).unwrap();
    assert!(store.run(halves.hit("a")).unwrap().allowed());
}

#[test]
fn with_several_keys_the_strictest_rule_for_failures_applies() {
    let store = Failing::new();
    let with = |rule| failing(&store, "4/minute", rule);
    let (error, open, closed, halves) =
        (with(OnFailure::Error), with(OnFailure::Open), with(OnFailure::Closed), with(local(2)));
    store.behaves_as(Behaviour::AnswersWithErrors);
    let all = |items: &[_]| store.run(hit_all_shared(items, None));
    assert!(all(&[error.item("a", 1), open.item("b", 1)]).is_err());
    assert!(!all(&[closed.item("a", 1), halves.item("b", 1)]).unwrap().allowed());
    assert!(all(&[open.item("a", 1), halves.item("b", 2)]).unwrap().allowed());
    let refused = all(&[open.item("a", 1), halves.item("b", 1), halves.item("c", 1)]).unwrap();
    let said: Vec<_> = refused.outcomes().iter().map(|d| (d.allowed(), d.source())).collect();
    let (fallback, fail_open) = (Source::Fallback, Source::FailOpen);
    assert_eq!(said, [(true, fail_open), (false, fallback), (true, fallback)]);
    assert!(all(&[open.item("a", 1), open.item("b", 1)]).unwrap().allowed());
    store.behaves_as(Behaviour::Answers);
    assert!(all(&[]).is_err());
    assert!(all(&[open.item("a", 1), open.item("a", 1)]).is_err());
}
