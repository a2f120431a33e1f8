//! The path of a request through a gate.

use std::future::ready;
use std::time::Duration;

use tollgate::shared::{OnFailure, SharedLimiter};
use tollgate::{Limiter, ManualClock, Memory, Timestamp};
use tollgate_http::{
    Admission, Chooser, Decider, Deciding, Gate, Head, KeyBy, LimitedRequest, OnMissing, Reason,
    RefusedRequest, Settle, SettleBy,
};
use tollgate_testkit::block_on;

use crate::away::Away;
use crate::heads::{AnyLines, address};

/// The admission of a request, whether it had to be waited for or not.
fn decide<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> Admission<D> {
    block_on(gate.decide(head, |_| ready(())).admission())
}

fn passes<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> bool {
    match decide(gate, head) {
        Admission::Admitted(_) => true,
        Admission::Refused(refused) => match refused.reason() {
            Reason::Denied { .. } => false,
            other => panic!("{other:?}"),
        },
    }
}

/// The request with its decision; `None` where it is not limited.
fn admitted<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> Option<Box<LimitedRequest<D>>> {
    match decide(&gate.clone().keep_decisions(), head) {
        Admission::Admitted(admitted) => admitted.request,
        Admission::Refused(refused) => panic!("{refused:?}"),
    }
}

fn refused<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> Box<RefusedRequest<D>> {
    match decide(gate, head) {
        Admission::Admitted(_) => panic!("admitted"),
        Admission::Refused(refused) => refused,
    }
}

/// The status of a request that is refused because it has no key.
fn without_key<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> u16 {
    let refused = refused(gate, head);
    assert!(matches!(refused.reason(), Reason::NoKey), "{refused:?}");
    refused.status()
}

fn limiter(text: &str) -> Limiter<Memory<ManualClock>> {
    let clock = ManualClock::new(Timestamp::from_micros(1_735_689_600_400_000));
    Memory::builder().clock(clock).build().limiter(text).unwrap()
}

#[test]
fn requests_without_a_key_share_one_bucket_and_are_never_let_through_unseen() {
    let gate = Gate::new(limiter("2/hour")).key(KeyBy::header("x-user"));
    let headers = [AnyLines::default(), AnyLines::one("x-user", ""), AnyLines::one("x-other", "a")];
    let passed =
        headers.each_ref().map(|headers| passes(&gate, &headers.from(address("192.0.2.1"))));
    assert_eq!(passed, [true, true, false]);
    assert!(passes(&gate, &AnyLines::one("x-user", "a").head()), "who has a key is not in it");
}

#[test]
fn requests_without_a_key_are_refused_if_configured() {
    let gate = Gate::new(limiter("2/hour")).on_missing(OnMissing::Refuse(403));
    let headers = AnyLines::one("x-forwarded-for", "1.1.1.1");
    assert_eq!(without_key(&gate, &headers.head()), 403);
    assert!(passes(&gate, &headers.from(address("192.0.2.1"))));
}

#[test]
fn an_empty_key_of_a_function_is_refused_too() {
    let gate = Gate::new(limiter("2/hour"))
        .key(KeyBy::function(|_| Some(Vec::new())))
        .on_missing(OnMissing::Refuse(400));
    assert_eq!(without_key(&gate, &AnyLines::default().head()), 400);
}

#[test]
fn a_refused_request_says_why_in_words_and_names_no_key() {
    let gate = Gate::new(limiter("1/minute")).status(420);
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.77"));
    assert!(passes(&gate, &head));
    let denied = refused(&gate, &head);
    assert_eq!(denied.status(), 420);
    let (media_type, text) = denied.body();
    assert_eq!(
        (media_type, text.as_str()),
        ("text/plain; charset=utf-8", "too many requests: come back in 60 s\n")
    );
    let (media_type, problem) = refused(&gate.clone().problem_json(), &head).body();
    assert_eq!(media_type, "application/problem+json");
    let mut all = format!("{text} {problem} {denied:?} {gate:?}");
    let headers = denied.headers().unwrap();
    headers.write(|field, value| all.push_str(&format!(" {}: {value:?}", field.name())));
    assert!(all.contains(r#"retry-after: "60""#) && !all.contains("192.0.2.77"), "{all}");
}

#[test]
fn exempt_and_unlimited_requests_cost_nothing() {
    let limiter = limiter("1/hour");
    let chooser = Chooser::one(limiter.clone()).unlimited("*", "/health").unwrap();
    let gate = Gate::from_chooser(chooser)
        .exempt(|head, _key| head.line("x-probe").is_some())
        .exempt_preflight();
    let preflight = preflight("PUT", "https://a.example");
    let probe = AnyLines::one("x-probe", "1");
    let plain = AnyLines::default();
    let peer = Some(address("192.0.2.1"));
    for _ in 0..3 {
        assert!(admitted(&gate, &Head::new("OPTIONS", "/", &preflight).peer(peer)).is_none());
        assert!(admitted(&gate, &Head::new("GET", "/", &probe).peer(peer)).is_none());
        assert!(admitted(&gate, &Head::new("GET", "/health", &plain).peer(peer)).is_none());
    }
    assert_eq!(limiter.peek("192.0.2.1").used(), 0);
    assert!(passes(&gate, &Head::new("OPTIONS", "/", &plain).peer(peer)));
    assert!(
        !passes(&gate, &Head::new("GET", "/", &preflight).peer(peer)),
        "only OPTIONS is a preflight"
    );
}

/// The headers of a preflight request.
fn preflight(method: &str, origin: &str) -> http::HeaderMap {
    http::HeaderMap::from_iter([
        (http::header::ACCESS_CONTROL_REQUEST_METHOD, method.parse().unwrap()),
        (http::header::ORIGIN, origin.parse().unwrap()),
    ])
}

#[test]
fn preflights_are_counted_unless_they_are_exempt() {
    let headers = preflight("PUT", "https://a.example");
    let head = Head::new("OPTIONS", "/", &headers).peer(Some(address("192.0.2.1")));
    let gate = Gate::new(limiter("1/hour"));
    assert_eq!([(); 2].map(|()| passes(&gate, &head)), [true, false]);
    let exempt = Gate::new(limiter("1/hour")).exempt_preflight();
    assert_eq!([(); 2].map(|()| passes(&exempt, &head)), [true, true]);
}

#[test]
fn only_a_valid_preflight_is_exempt() {
    let gate = Gate::new(limiter("1/hour")).exempt_preflight();
    let peer = Some(address("192.0.2.1"));
    assert!(passes(&gate, &AnyLines::default().from(address("192.0.2.1"))), "the only unit");
    let origin = "https://a.example";
    for (method, request_method, origin) in [
        ("OPTIONS", "", origin),
        ("OPTIONS", " ", origin),
        ("OPTIONS", "PUT,GET", origin),
        ("OPTIONS", "P UT", origin),
        ("OPTIONS", "PUT", ""),
        ("options", "PUT", origin),
        ("GET", "PUT", origin),
    ] {
        let headers = preflight(request_method, origin);
        let head = Head::new(method, "/", &headers).peer(peer);
        assert!(!passes(&gate, &head), "{method} {request_method:?} {origin:?}");
    }
    let no_origin = AnyLines::one("access-control-request-method", "PUT");
    assert!(!passes(&gate, &Head::new("OPTIONS", "/", &no_origin).peer(peer)));
    let no_method = AnyLines::one("origin", origin);
    assert!(!passes(&gate, &Head::new("OPTIONS", "/", &no_method).peer(peer)));
}

#[test]
fn an_exemption_is_no_way_around_a_missing_key() {
    let chooser = Chooser::one(limiter("1/hour")).unlimited("*", "/health").unwrap();
    let gate = Gate::from_chooser(chooser)
        .exempt(|_, _| true)
        .exempt_preflight()
        .on_missing(OnMissing::Refuse(401));
    let headers = preflight("PUT", "https://a.example");
    for (method, path) in [("OPTIONS", "/"), ("GET", "/"), ("HEAD", "/health")] {
        assert_eq!(without_key(&gate, &Head::new(method, path, &headers)), 401, "{method} {path}");
    }
}

#[test]
fn a_shadow_admits_all_and_sends_no_retry_after() {
    let limiter = limiter("1/hour");
    let gate = Gate::new(limiter.clone()).shadow();
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    for allowed in [true, false, false] {
        let Admission::Admitted(admitted) = decide(&gate.clone().keep_decisions(), &head) else {
            panic!()
        };
        let request = admitted.request.unwrap();
        assert_eq!(request.decision().allowed(), allowed);
        admitted.headers.unwrap().write(|field, _| assert_ne!(field.name(), "retry-after"));
        // Units that were not charged are not given back.
        if !allowed {
            assert!(request.settle_now(Settle::Nothing));
        }
    }
    assert_eq!(limiter.peek("192.0.2.1").used(), 1);
}

#[test]
fn clones_of_a_gate_keep_their_rules_and_share_their_counts() {
    let gate = Gate::new(limiter("2/hour"));
    let shadow = gate.clone().shadow();
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    assert!(passes(&gate, &head) && passes(&gate.clone(), &head));
    assert!(!passes(&gate, &head) && passes(&shadow, &head));
}

#[test]
fn a_gate_that_waits_admits_requests_that_fit_in_time() {
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Memory::builder().clock(clock.clone()).build().limiter("1/minute").unwrap();
    let gate = Gate::new(limiter).wait(Duration::from_secs(90));
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    let decide = || {
        let clock = clock.clone();
        let sleep = move |span| {
            clock.advance(span);
            ready(())
        };
        let Deciding::Pending(admission) = gate.decide(&head, sleep) else {
            panic!("it may have to wait")
        };
        block_on(admission)
    };
    assert!(matches!(decide(), Admission::Admitted(_)));
    assert!(matches!(decide(), Admission::Admitted(_)), "after a minute of that clock");
}

#[test]
fn a_store_that_does_not_answer_is_an_error_and_neither_a_pass_nor_a_refusal() {
    let store = Away::new();
    let gate = Gate::new(SharedLimiter::new(&store, "", "2/hour").unwrap());
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    assert!(passes(&gate, &head));
    store.set(true);
    for gate in [gate.clone(), gate.shadow()] {
        let refused = refused(&gate, &head);
        assert!(matches!(refused.reason(), Reason::StoreFailed(_)), "nothing was decided");
        assert!((refused.status(), refused.headers().is_none()) == (503, true));
    }
}

#[test]
fn a_store_that_does_not_answer_follows_the_rule_of_its_limiter() {
    for (rule, pass) in [(OnFailure::Open, true), (OnFailure::Closed, false)] {
        let store = Away::new();
        let limiter = SharedLimiter::new(&store, "", "1/hour").unwrap().on_failure(rule).unwrap();
        let gate = Gate::new(limiter);
        store.set(true);
        let headers = AnyLines::default();
        for _ in 0..3 {
            assert_eq!(passes(&gate, &headers.from(address("192.0.2.1"))), pass);
        }
    }
}

#[test]
fn a_settlement_that_fails_fails_nothing_else() {
    let store = Away::new();
    let gate = Gate::new(SharedLimiter::new(&store, "", "2/hour").unwrap());
    let headers = AnyLines::default();
    let request = admitted(&gate, &headers.from(address("192.0.2.1"))).unwrap();
    assert!(!request.settle_now(Settle::Nothing), "a store that waits");
    store.set(true);
    block_on(request.settle(Settle::Nothing));
    block_on(request.settle(Settle::Cost(9)));
}

#[test]
fn a_cost_that_never_fits_has_its_own_message() {
    let gate = Gate::new(limiter("5/hour")).cost(|_| 6);
    let headers = AnyLines::default();
    let refused = refused(&gate, &headers.from(address("192.0.2.1")));
    assert!(refused.body().1.starts_with("too much for one request"));
    refused.headers().unwrap().write(|field, _| assert_ne!(field.name(), "retry-after"));
}

#[test]
fn only_a_gate_that_has_to_wait_answers_with_a_future() {
    let gate = || Gate::new(Memory::new().limiter("2/hour").unwrap());
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    let is_ready = |deciding| matches!(deciding, Deciding::Ready(Admission::Admitted(_)));
    let by_rule = Chooser::one(Memory::new().limiter("2/hour").unwrap());
    let ready_gates = [
        gate(),
        gate().key(KeyBy::path()),
        gate().cost(|_| 2),
        gate().exempt(|_, _| false),
        gate().settle(SettleBy::head(|_| Settle::Cost(1))),
        gate().keep_decisions(),
        gate().on_missing(OnMissing::Refuse(401)),
        gate().exempt_preflight(),
        Gate::from_chooser(by_rule.unlimited("*", "/free").unwrap()),
    ];
    for (index, gate) in ready_gates.iter().enumerate() {
        assert!(is_ready(gate.decide(&head, |_| ready(()))), "gate {index}");
    }
    let pending_gates = [
        gate().wait(Duration::from_secs(1)),
        Gate::from_chooser(Chooser::plan((), |_, _| async { None })),
        gate().callers((), |_, _| async { None }),
    ];
    for (index, gate) in pending_gates.iter().enumerate() {
        assert!(matches!(gate.decide(&head, |_| ready(())), Deciding::Pending(_)), "gate {index}");
    }
    let away = Gate::new(SharedLimiter::new(&Away::new(), "", "2/hour").unwrap());
    assert!(matches!(away.decide(&head, |_| ready(())), Deciding::Pending(_)));
}

#[test]
fn only_gates_that_settle_or_keep_decisions_keep_them() {
    let gate = || Gate::new(Memory::new().limiter("9/hour").unwrap());
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    let settles = gate().settle(SettleBy::head(|_| Settle::Nothing));
    for (gate, keeps) in [(gate(), false), (gate().keep_decisions(), true), (settles, true)] {
        let Admission::Admitted(admitted) = decide(&gate, &head) else { panic!() };
        assert_eq!(admitted.request.is_some(), keeps);
    }
}
