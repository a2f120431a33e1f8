//! The way of a request.

use std::future::ready;
use std::time::Duration;

use tollgate::shared::{OnFailure, SharedLimiter};
use tollgate::{Limiter, ManualClock, Memory, Timestamp};
use tollgate_http::{
    AtOnce, Chooser, ClientIp, Decider, Gate, Head, KeyBy, OnMissing, Question, Settle, SettleBy,
    Verdict,
};
use tollgate_testkit::block_on;

use crate::away::Away;
use crate::heads::{AnyLines, address};

/// Asks, and decides if there is something to decide; `None` where the request is not limited.
fn ask<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> Option<Verdict<D>> {
    match gate.question(head) {
        Question::Ask { key, cost, choice } => {
            Some(block_on(gate.decide(key, cost, choice, |_| ready(()))))
        }
        Question::Skip => None,
        Question::NoKey(status) => panic!("no key: {status}"),
    }
}

fn passes<D: Decider>(gate: &Gate<D>, head: &Head<'_>) -> bool {
    match ask(gate, head) {
        None | Some(Verdict::Unlimited | Verdict::Pass(_)) => true,
        Some(Verdict::Refuse(_)) => false,
        Some(Verdict::Failed(error)) => panic!("{error}"),
    }
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
fn requests_without_a_key_are_refused_where_wanted() {
    let gate = Gate::new(limiter("2/hour")).on_missing(OnMissing::Refuse(403));
    let headers = AnyLines::one("x-forwarded-for", "1.1.1.1");
    assert!(matches!(gate.question(&headers.head()), Question::NoKey(403)));
    assert!(passes(&gate, &headers.from(address("192.0.2.1"))));
}

#[test]
fn an_empty_key_of_a_function_is_refused_too() {
    let gate = Gate::new(limiter("2/hour"))
        .key(KeyBy::function(|_| Some(Vec::new())))
        .on_missing(OnMissing::Refuse(400));
    assert!(matches!(gate.question(&AnyLines::default().head()), Question::NoKey(400)));
}

#[test]
fn a_refused_request_says_why_in_words_and_names_no_key() {
    let gate = Gate::new(limiter("1/minute")).status(420);
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.77"));
    assert!(passes(&gate, &head));
    let Some(Verdict::Refuse(pass)) = ask(&gate, &head) else { panic!() };
    assert_eq!(gate.refusal_status(), 420);
    let (media_type, text) = gate.refusal_body(&pass);
    assert_eq!(
        (media_type, text.as_str()),
        ("text/plain; charset=utf-8", "too many requests: come back in 60 s\n")
    );
    let (media_type, problem) = gate.clone().problem_json().refusal_body(&pass);
    assert_eq!(media_type, "application/problem+json");
    let mut all = format!("{text} {problem} {pass:?} {gate:?}");
    gate.write_headers(&pass, |name, value| all.push_str(&format!(" {name}: {value}")));
    assert!(all.contains("retry-after: 60") && !all.contains("192.0.2.77"), "{all}");
}

#[test]
fn exempt_and_unlimited_requests_cost_nothing() {
    let limiter = limiter("1/hour");
    let chooser = Chooser::one(limiter.clone()).unlimited("*", "/health").unwrap();
    let gate = Gate::choosing(chooser)
        .exempt(|head, _key| head.line("x-probe").is_some())
        .exempt_preflight();
    let preflight = preflight("PUT", "https://a.example");
    let probe = AnyLines::one("x-probe", "1");
    let plain = AnyLines::default();
    let peer = Some(address("192.0.2.1"));
    for _ in 0..3 {
        assert!(ask(&gate, &Head::new("OPTIONS", "/", &preflight).peer(peer)).is_none());
        assert!(ask(&gate, &Head::new("GET", "/", &probe).peer(peer)).is_none());
        assert!(ask(&gate, &Head::new("GET", "/health", &plain).peer(peer)).is_none());
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
    let gate = Gate::choosing(chooser)
        .exempt(|_, _| true)
        .exempt_preflight()
        .on_missing(OnMissing::Refuse(401));
    let headers = preflight("PUT", "https://a.example");
    for (method, path) in [("OPTIONS", "/"), ("GET", "/"), ("HEAD", "/health")] {
        let question = gate.question(&Head::new(method, path, &headers));
        assert!(matches!(question, Question::NoKey(401)), "{method} {path}");
    }
}

#[test]
fn a_shadow_lets_all_pass_says_so_to_handlers_and_tells_nobody_to_stay_away() {
    let limiter = limiter("1/hour");
    let gate = Gate::new(limiter.clone()).shadow();
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    for allowed in [true, false, false] {
        let Some(Verdict::Pass(pass)) = ask(&gate, &head) else { panic!() };
        assert_eq!(pass.outcomes().allowed(), allowed);
        gate.write_headers(&pass, |name, _| assert_ne!(name, "retry-after"));
        // What it was not charged it does not get back.
        if !allowed {
            assert!(pass.settle_now(Settle::Nothing));
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
fn a_gate_that_waits_lets_pass_what_fits_in_time() {
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Memory::builder().clock(clock.clone()).build().limiter("1/minute").unwrap();
    let gate = Gate::new(limiter).wait(Duration::from_secs(90));
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    let ask = || {
        let Question::Ask { key, cost, choice } = gate.question(&head) else { panic!() };
        let clock = clock.clone();
        let sleep = move |span| {
            clock.advance(span);
            ready(())
        };
        block_on(gate.decide(key, cost, choice, sleep))
    };
    assert!(matches!(ask(), Verdict::Pass(_)));
    assert!(matches!(ask(), Verdict::Pass(_)), "after a minute of that clock");
    let Question::Ask { key, choice, .. } = gate.question(&head) else { panic!() };
    assert!(gate.decide_now(key, 1, choice).is_err(), "it may have to wait");
}

#[test]
fn a_store_that_does_not_answer_is_an_error_and_neither_a_pass_nor_a_refusal() {
    let store = Away::new();
    let gate = Gate::new(SharedLimiter::new(&store, "", "2/hour").unwrap());
    let headers = AnyLines::default();
    let head = headers.from(address("192.0.2.1"));
    assert!(passes(&gate, &head));
    store.set(true);
    assert!(matches!(ask(&gate, &head), Some(Verdict::Failed(_))));
    assert!(
        matches!(ask(&gate.clone().shadow(), &head), Some(Verdict::Failed(_))),
        "nothing was decided"
    );
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
    let Some(Verdict::Pass(pass)) = ask(&gate, &headers.from(address("192.0.2.1"))) else {
        panic!()
    };
    assert!(!pass.settle_now(Settle::Nothing), "a store that waits");
    store.set(true);
    block_on(pass.settle(Settle::Nothing));
    block_on(pass.settle(Settle::Cost(9)));
}

#[test]
fn a_cost_that_never_fits_is_refused_with_words_of_its_own() {
    let gate = Gate::new(limiter("5/hour")).cost(|_| 6);
    let headers = AnyLines::default();
    let Some(Verdict::Refuse(pass)) = ask(&gate, &headers.from(address("192.0.2.1"))) else {
        panic!()
    };
    assert!(gate.refusal_body(&pass).1.starts_with("too much for one request"));
    gate.write_headers(&pass, |name, _| assert_ne!(name, "retry-after"));
}

#[test]
fn what_was_foreseen_counts_with_what_comes() {
    for peer in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.9"] {
        let peer: std::net::IpAddr = peer.parse().unwrap();
        let gate = Gate::new(Memory::new().limiter("2/hour").unwrap());
        let (foreseen, headers) = (gate.foresee(peer).unwrap(), http::HeaderMap::new());
        let head = Head::new("GET", "/", &headers).peer(Some(peer));
        assert!(matches!(gate.foreseen(&foreseen), AtOnce::Passes(_)));
        assert!(matches!(gate.at_once(&head), AtOnce::Passes(_)));
        for answer in [gate.foreseen(&foreseen), gate.at_once(&head)] {
            let AtOnce::Decided(Verdict::Refuse(pass)) = answer else { panic!("{peer}") };
            block_on(pass.settle(Settle::Nothing));
        }
        assert!(!passes(&gate, &head), "a refusal gives nothing back");
    }
}

#[test]
fn only_what_is_the_same_for_all_requests_of_a_peer_is_foreseen() {
    let peer = std::net::IpAddr::from([192, 0, 2, 1]);
    let gate = || Gate::new(Memory::new().limiter("2/hour").unwrap());
    assert!(gate().foresee(peer).is_some());
    let store = Memory::new();
    let chooser = || Chooser::one(store.limiter("2/hour").unwrap());
    let by_rule = chooser().unlimited("*", "/free").unwrap();
    let others = [
        gate().key(KeyBy::path()),
        gate().key(KeyBy::client_ip(ClientIp::behind_hops(1))),
        gate().cost(|_| 2),
        gate().exempt(|_, _| false),
        gate().settle(SettleBy::head(|_| Settle::Cost(1))),
        gate().wait(Duration::from_secs(1)),
        Gate::choosing(by_rule),
        Gate::choosing(Chooser::plan((), |_, _| async { None })),
        gate().callers((), |_, _| async { None }),
        gate().exempt_preflight(),
    ];
    for (place, gate) in others.iter().enumerate() {
        assert!(gate.foresee(peer).is_none(), "gate {place}");
    }
    assert!(Gate::choosing(chooser()).foresee(peer).is_some());
}
