//! Headers and bodies of responses.

use std::time::Duration;

use actix_web::web::ReqData;
use actix_web::{HttpResponse, web};
use tollgate::Decision;
use tollgate_actix::{RateLimit, Reason};
use tollgate_http::{Gate, Headers, Reset};

use crate::client::get;
use crate::server::{serve, store};

fn hello(app: &mut web::ServiceConfig) {
    app.route("/", web::get().to(|| async { "hello" }));
}

fn parameters(member: &(String, Vec<(String, i64)>)) -> (&str, Vec<(&str, i64)>) {
    (&member.0, member.1.iter().map(|(key, value)| (key.as_str(), *value)).collect())
}

#[test]
fn every_response_describes_the_limit_in_structured_fields() {
    let (store, clock) = store();
    let limiter = store.limiter("2/minute fixed-window-per-key name=api").unwrap();
    let server = serve(RateLimit::new(limiter), hello);
    for (left, status) in [(1, 200), (0, 200), (0, 429)] {
        let answer = get(server.address, "/");
        assert_eq!(answer.status, status);
        let policy = answer.list("ratelimit-policy");
        assert_eq!(
            policy.iter().map(parameters).collect::<Vec<_>>(),
            [("api", vec![("q", 2), ("w", 60)])]
        );
        let told = answer.list("ratelimit");
        assert_eq!(
            told.iter().map(parameters).collect::<Vec<_>>(),
            [("api", vec![("r", left), ("t", 60)])]
        );
        assert_eq!(answer.number("retry-after"), (status == 429).then_some(60));
    }
    clock.advance(Duration::from_millis(58_900));
    let refused = get(server.address, "/");
    assert_eq!(refused.number("retry-after"), Some(2), "1.1 s are 2");
    assert_eq!(refused.text(), "too many requests: come back in 2 s\n");
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    clock.advance(Duration::from_secs(2));
    assert_eq!(get(server.address, "/").status, 200, "who waits as told is not too early");
}

#[test]
fn the_headline_of_several_limits_is_shown() {
    let (store, _) = store();
    let limiter = store.limiter("100/hour name=long, 2/minute name=short").unwrap();
    let server = serve(RateLimit::new(limiter), |app| {
        let left = |binds: ReqData<Decision>, all: ReqData<Decision>| async move {
            assert_eq!(binds.remaining(), all.headline().remaining());
            all.outcomes().iter().map(|one| format!("{} ", one.remaining())).collect::<String>()
        };
        app.route("/", web::get().to(left));
    });
    assert_eq!(get(server.address, "/").text(), "99 1 ");
    assert_eq!(get(server.address, "/").text(), "98 0 ");
    let refused = get(server.address, "/");
    assert_eq!(refused.status, 429);
    let names: Vec<_> =
        refused.list("ratelimit-policy").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["long", "short"]);
    assert_eq!(refused.list("ratelimit")[0].0, "short");
}

#[test]
fn handlers_see_the_decision() {
    let (store, _) = store();
    let server = serve(RateLimit::new(store.limiter("5/hour").unwrap()), |app| {
        let left = |decision: ReqData<Decision>| async move { decision.remaining().to_string() };
        app.route("/", web::get().to(left));
    });
    assert_eq!(get(server.address, "/").text(), "4");
    assert_eq!(get(server.address, "/").text(), "3");
}

#[test]
fn older_headers_are_sent_if_configured() {
    let (store, _) = store();
    let headers = Headers::none().three_fields().x_rate_limit(Reset::UnixTime);
    let limiter = store.limiter("2/minute fixed-window-per-key").unwrap();
    let server = serve(RateLimit::from_gate(Gate::new(limiter).headers(headers)), hello);
    let answer = get(server.address, "/");
    assert_eq!(answer.header("ratelimit"), None);
    for (name, value) in [
        ("ratelimit-limit", 2),
        ("ratelimit-remaining", 1),
        ("ratelimit-reset", 60),
        ("x-ratelimit-limit", 2),
        ("x-ratelimit-remaining", 1),
        ("x-ratelimit-reset", 1_735_689_661),
    ] {
        assert_eq!(answer.number(name), Some(value), "{name}");
    }
}

#[test]
fn a_refusal_can_have_a_problem_body() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("1/minute name=\"a \\\"b\\\"\"").unwrap()).problem_json();
    let server = serve(RateLimit::from_gate(gate), hello);
    assert_eq!(get(server.address, "/").text(), "hello");
    let refused = get(server.address, "/");
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let problem: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"][0], "a \"b\"");
}

#[test]
fn a_custom_refusal_keeps_the_headers() {
    let (store, _) = store();
    let limit = RateLimit::new(store.limiter("1/minute").unwrap());
    let limit = limit.refusal(|refusal| {
        let Reason::Denied { limit: Some(limit), .. } = refusal.reason else { panic!() };
        let text = format!("{} {} {}", refusal.status, refusal.request.path(), limit.quota());
        HttpResponse::ImATeapot().insert_header(("cache-control", "private")).body(text)
    });
    let server = serve(limit, hello);
    get(server.address, "/");
    let refused = get(server.address, "/");
    assert_eq!((refused.status, refused.text().as_str()), (418, "429 Too Many Requests / 1"));
    assert_eq!(refused.number("retry-after"), Some(60));
    assert_eq!(refused.header("cache-control"), Some("private"));
    assert_eq!(refused.list("ratelimit").len(), 1);
}

#[test]
fn nested_limits_are_both_described_and_older_headers_show_the_one_with_less_left() {
    let (store, _) = store();
    let limit = |text: &str| {
        let headers = Headers::default().x_rate_limit(Reset::Delta);
        RateLimit::from_gate(Gate::new(store.limiter(text).unwrap()).headers(headers))
    };
    let inner = limit("1/minute name=inner");
    let server = serve(limit("100/hour name=outer"), move |app| {
        let resource = web::resource("/").wrap(inner.clone());
        app.service(resource.route(web::get().to(|| async { "hello" })));
    });
    get(server.address, "/");
    let refused = get(server.address, "/");
    assert_eq!((refused.status, refused.number("retry-after")), (429, Some(60)));
    let told: Vec<_> = refused.list("ratelimit").into_iter().map(|(name, _)| name).collect();
    assert_eq!(told, ["inner", "outer"]);
    assert_eq!(refused.number("x-ratelimit-limit"), Some(1));
    assert_eq!(refused.number("x-ratelimit-remaining"), Some(0));
}

#[test]
fn no_key_and_no_address_goes_into_a_response() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("1/minute").unwrap())
        .key(tollgate_http::KeyBy::default().and(tollgate_http::KeyBy::api_key("x-api-key")))
        .problem_json();
    let server = serve(RateLimit::from_gate(gate), hello);
    for _ in 0..2 {
        let answer = crate::client::send(server.address, "GET /", &["x-api-key: s3cret"]).unwrap();
        let all = format!("{answer:?}");
        assert!(!all.contains("s3cret") && !all.contains("127.0.0.1"), "{all}");
    }
}
