//! All settings of a gate, through a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::AppendHeaders;
use axum::routing::{get, post};
use axum::{Extension, Router};
use tollgate::Memory;
use tollgate_tower::{
    Caller, Chooser, Decided, Decider, Gate, Headers, KeyBy, OnMissing, RateLimitLayer, Reason,
    Reset, Settle, SettleBy,
};

use crate::net::{Browser, counting, request, serve, serve_around, stopped};

fn hello(gate: Gate<impl Decider>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::from_gate(gate))
}

#[tokio::test]
async fn a_preflight_is_counted_unless_it_is_exempt() {
    let reached = Arc::new(AtomicUsize::new(0));
    for (exempt, expected) in [(true, [200, 200, 200]), (false, [200, 429, 429])] {
        let limiter = Memory::new().limiter("1/day").unwrap();
        let gate = Gate::new(limiter.clone());
        let gate = if exempt { gate.exempt_preflight() } else { gate };
        let app =
            Router::new().route("/", counting(&reached)).layer(RateLimitLayer::from_gate(gate));
        let server = serve(app).await;
        let preflight = [("access-control-request-method", "PUT"), ("origin", "http://a.example")];
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let answer = Browser::h1().send(request("OPTIONS", server, "/", &preflight)).await;
            statuses.push(answer.status.as_u16());
        }
        assert_eq!(statuses, expected);
    }
    assert_eq!(reached.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn only_preflights_of_browsers_are_exempt() {
    let gate = Gate::new(Memory::new().limiter("1/day").unwrap()).exempt_preflight();
    let reached = Arc::new(AtomicUsize::new(0));
    let app =
        Router::new().route("/", counting(&reached)).layer(RateLimitLayer::from_gate(gate.clone()));
    let server = serve(app).await;
    let method = "access-control-request-method";
    for headers in [
        &[][..],
        &[(method, "PUT")],
        &[(method, ""), ("origin", "http://a.example")],
        &[(method, "PUT GET"), ("origin", "http://a.example")],
        &[(method, "PUT"), ("origin", "")],
        &[("origin", "http://a.example")],
    ] {
        Browser::h1().send(request("OPTIONS", server, "/", headers)).await;
    }
    assert_eq!(reached.load(Ordering::Relaxed), 1, "the first of them was the only unit");
    // A preflight without a key is refused where keys are needed.
    let keyed = gate.key(KeyBy::header("x-user")).on_missing(OnMissing::Refuse(401));
    let server = serve(hello(keyed)).await;
    let preflight = [(method, "PUT"), ("origin", "http://a.example")];
    let answer = Browser::h1().send(request("OPTIONS", server, "/", &preflight)).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn an_invented_key_is_limited_by_address_and_a_known_one_by_its_caller() {
    for around in [false, true] {
        let gate =
            Gate::new(stopped().limiter("2/day").unwrap()).callers("s3cret", |known, head| {
                let known = head.line("x-api-key") == Some(known.as_bytes());
                async move {
                    tokio::task::yield_now().await;
                    known.then(|| Caller::new("acme"))
                }
            });
        let app = Router::new().route("/", get(|| async { "hello" }));
        let layer = RateLimitLayer::from_gate(gate);
        let server = if around {
            serve_around(layer.around(app)).await
        } else {
            serve(app.layer(layer)).await
        };
        let browser = Browser::h1();
        for (key, status) in [
            ("x1", 200),
            ("x2", 200),
            ("x3", 429),
            ("x4", 429),
            ("s3cret", 200),
            ("s3cret", 200),
            ("s3cret", 429),
        ] {
            let answer = browser.get_with(server, "/", &[("x-api-key", key)]).await;
            assert_eq!(answer.status, status, "{key}");
        }
    }
}

#[tokio::test]
async fn a_shadow_decides_and_reports_and_never_refuses() {
    let limiter = stopped().limiter("1/day").unwrap();
    let shadowed =
        |Extension(decided): Extension<Decided>| async move { decided.allowed().to_string() };
    let gate = Gate::new(limiter.clone()).shadow().settle(SettleBy::header("x-cost"));
    let layer = RateLimitLayer::from_gate(gate).tell_handlers();
    let server = serve(Router::new().route("/", get(shadowed)).layer(layer)).await;
    let browser = Browser::h1();
    assert_eq!(browser.get(server, "/").await.body, "true");
    let would_be_refused = browser.get(server, "/").await;
    assert_eq!(would_be_refused.status, 200);
    assert_eq!(would_be_refused.body, "false");
    assert_eq!(would_be_refused.items("ratelimit")[0].1[0], ("r".to_owned(), 0));
    assert_eq!(would_be_refused.header("retry-after"), None, "nobody is told to stay away");
    assert_eq!(limiter.usage("127.0.0.1"), 1);
}

#[tokio::test]
async fn a_gate_that_waits_admits_requests_that_fit_in_time() {
    let limiter = Memory::new().limiter("1/50ms").unwrap();
    let gate = Gate::new(limiter).wait(Duration::from_secs(20));
    let server = serve(hello(gate)).await;
    assert_eq!(Browser::h1().statuses(server, "/", 5).await, [200; 5]);

    let limiter = Memory::new().limiter("1/50ms; 3/day fixed-window-per-key").unwrap();
    let gate = Gate::new(limiter).wait(Duration::from_secs(20));
    let server = serve(hello(gate)).await;
    assert_eq!(Browser::h1().statuses(server, "/", 4).await, [200, 200, 200, 429]);
}

#[tokio::test]
async fn plans_are_looked_up_for_each_request() {
    let store = stopped();
    let plan = |text: &str| store.limiter(text).unwrap();
    let both = (plan("1/day name=free"), plan("3/day name=paid"));
    let plans = Chooser::plan(both, |both, head| {
        let customer = head.line("x-customer").map(<[u8]>::to_vec);
        async move {
            tokio::task::yield_now().await;
            match customer.as_deref() {
                Some(b"acme") => Some(both.1.clone()),
                Some(b"ourselves") => None,
                _ => Some(both.0.clone()),
            }
        }
    });
    let gate = Gate::from_chooser(plans).key(KeyBy::header("x-customer"));
    let server = serve(hello(gate)).await;
    let browser = Browser::h1();
    for (customer, expected) in [
        ("acme", [200, 200, 200, 429]),
        ("somebody", [200, 429, 429, 429]),
        ("ourselves", [200; 4]),
    ] {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let answer = browser.get_with(server, "/", &[("x-customer", customer)]).await;
            statuses.push(answer.status.as_u16());
        }
        assert_eq!(statuses, expected, "{customer}");
    }
    let answer = browser.get_with(server, "/", &[("x-customer", "acme")]).await;
    assert_eq!(answer.items("ratelimit")[0].0, "paid");
}

#[tokio::test]
async fn routes_and_methods_have_limits_of_their_own() {
    let store = Memory::new();
    let limiter = |text: &str| store.limiter(text).unwrap();
    let by_route = Chooser::one(limiter("9/day"))
        .on("POST", "/login", limiter("1/day name=login"))
        .and_then(|chooser| chooser.unlimited("*", "/static/*"))
        .unwrap();
    let app = Router::new()
        .route("/login", get(|| async { "form" }).post(|| async { "in" }))
        .route("/static/logo", get(|| async { "logo" }))
        .layer(RateLimitLayer::from_gate(Gate::from_chooser(by_route)));
    let server = serve(app).await;
    let browser = Browser::h1();
    let login = || browser.send(request("POST", server, "/login", &[]));
    assert_eq!(
        (login().await.status, login().await.status),
        (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS)
    );
    assert_eq!(browser.statuses(server, "/login", 2).await, [200, 200]);
    let free = browser.get(server, "/static/logo").await;
    assert_eq!((free.status.as_u16(), free.header("ratelimit")), (200, None));
}

#[tokio::test]
async fn a_layer_on_a_route_adds_to_the_one_around_it() {
    let store = stopped();
    let outer = Gate::new(store.limiter("5/day name=all").unwrap())
        .headers(Headers::default().x_rate_limit(Reset::Delta));
    let inner = Gate::new(store.limiter("2/day name=search").unwrap())
        .headers(Headers::default().x_rate_limit(Reset::Delta));
    let app = Router::new()
        .route("/search", get(|| async { "found" }).layer(RateLimitLayer::from_gate(inner)))
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::from_gate(outer));
    let server = serve(app).await;
    let browser = Browser::h1();
    let answer = browser.get(server, "/search").await;
    let names = |field| answer.items(field).into_iter().map(|item| item.0).collect::<Vec<_>>();
    assert_eq!(names("ratelimit"), ["search", "all"]);
    assert_eq!(names("ratelimit-policy"), ["search", "all"]);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("1"), "of the one that binds");
    assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
    assert_eq!(browser.statuses(server, "/search", 2).await, [200, 429]);
    assert_eq!(browser.get(server, "/").await.header("x-ratelimit-remaining"), Some("1"));
}

#[tokio::test]
async fn requests_cost_what_the_cost_function_returns() {
    let limiter = stopped().limiter("10/day").unwrap();
    let cost = |head: &tollgate_tower::Head<'_>| if head.path == "/export" { 7 } else { 1 };
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/export", get(|| async { "much" }))
        .layer(RateLimitLayer::from_gate(Gate::new(limiter).cost(cost)));
    let server = serve(app).await;
    let browser = Browser::h1();
    assert_eq!(browser.statuses(server, "/export", 2).await, [200, 429]);
    assert_eq!(browser.statuses(server, "/", 4).await, [200, 200, 200, 429]);
}

#[tokio::test]
async fn a_cost_that_never_fits_has_no_retry_time() {
    let gate = Gate::new(stopped().limiter("10/day").unwrap()).cost(|_| 11);
    let answer = Browser::h1().get(serve(hello(gate)).await, "/").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, None));
    assert_eq!(answer.body, "too much for one request: it costs more than the limit ever allows\n");
}

#[tokio::test]
async fn only_failed_logins_count() {
    let limiter = stopped().limiter("2/day").unwrap();
    let settle =
        SettleBy::head(
            |response| {
                if response.status == 401 { Settle::AsCharged } else { Settle::Nothing }
            },
        );
    let app = Router::new()
        .route("/right", post(|| async { "in" }))
        .route("/wrong", post(|| async { StatusCode::UNAUTHORIZED }))
        .layer(RateLimitLayer::from_gate(Gate::new(limiter.clone()).settle(settle)));
    let server = serve(app).await;
    let browser = Browser::h1();
    let mut statuses = Vec::new();
    for path in ["/right", "/right", "/right", "/wrong", "/right", "/wrong", "/wrong", "/right"] {
        statuses.push(browser.send(request("POST", server, path, &[])).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 401, 200, 401, 429, 429]);
    assert_eq!(limiter.usage("127.0.0.1"), 2);
}

#[tokio::test]
async fn a_header_of_the_handler_sets_the_cost() {
    let limiter = stopped().limiter("100/day").unwrap();
    let handler = || async { (AppendHeaders([("x-cost", "30")]), "done") };
    let gate = Gate::new(limiter.clone()).settle(SettleBy::header("X-Cost"));
    let app = Router::new().route("/", get(handler)).layer(RateLimitLayer::from_gate(gate));
    let server = serve(app).await;
    let statuses = Browser::h1().statuses(server, "/", 5).await;
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
    assert_eq!(limiter.usage("127.0.0.1"), 120, "the last one was charged beyond the limit");
}

#[tokio::test]
async fn exempt_keys_are_not_counted() {
    let limiter = Memory::new().limiter("1/day").unwrap();
    let gate = Gate::new(limiter.clone()).exempt(|head, _| head.line("x-internal").is_some());
    let server = serve(hello(gate)).await;
    for _ in 0..3 {
        let answer = Browser::h1().get_with(server, "/", &[("x-internal", "1")]).await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(limiter.usage("127.0.0.1"), 0);
}

#[tokio::test]
async fn extensions_of_other_layers_are_seen() {
    #[derive(Clone)]
    struct User(&'static str);
    let limiter = Memory::new().limiter("1/day").unwrap();
    let by_user = KeyBy::function(|head| head.extension::<User>().map(|user| user.0.into()));
    let app = hello(Gate::new(limiter.clone()).key(by_user)).layer(Extension(User("alice")));
    let server = serve(app).await;
    assert_eq!(Browser::h1().get(server, "/").await.status, 200);
    assert_eq!(limiter.usage("alice"), 1);
}

#[tokio::test]
async fn a_problem_is_json_that_names_the_policy() {
    let limiter = stopped().limiter("9/second; 1/hour name=hour");
    let gate = Gate::new(limiter.unwrap()).problem_json().status(403);
    let server = serve(hello(gate)).await;
    let browser = Browser::h1();
    assert_eq!(browser.get(server, "/").await.status, 200);
    let refused = browser.get(server, "/").await;
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let problem: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["status"], 403);
    assert_eq!(problem["violated-policies"], serde_json::json!(["hour"]));
    assert_eq!(refused.header("retry-after"), Some("3600"));
}

#[tokio::test]
async fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
    for (limit, expected) in
        [("1/10ms", "1"), ("1/second", "1"), ("1/1001ms", "2"), ("2/3s burst=1", "2")]
    {
        let server = serve(hello(Gate::new(stopped().limiter(limit).unwrap()))).await;
        let browser = Browser::h1();
        browser.get(server, "/").await;
        assert_eq!(browser.get(server, "/").await.header("retry-after"), Some(expected), "{limit}");
    }
}

#[tokio::test]
async fn a_custom_refusal_keeps_the_headers_of_the_decision() {
    let layer =
        RateLimitLayer::new(stopped().limiter("1/day name=api").unwrap()).refusal(|refusal| {
            let Reason::Denied { limit: Some(limit), .. } = refusal.reason else {
                panic!("{refusal:?}")
            };
            let text = format!("{} says no to {}", limit.name().unwrap(), refusal.head.path);
            let response =
                http::Response::builder().status(420).header("cache-control", "max-age=1");
            response.body(text).unwrap()
        });
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let server = serve(app).await;
    let browser = Browser::h1();
    browser.get(server, "/").await;
    let refused = browser.get(server, "/").await;
    assert_eq!((refused.status.as_u16(), refused.body.as_str()), (420, "api says no to /"));
    assert_eq!(refused.header("retry-after"), Some("86400"));
    assert_eq!(refused.header("cache-control"), Some("max-age=1"));
    assert_eq!(refused.items("ratelimit")[0].0, "api");
}

#[tokio::test]
async fn an_unknown_path_is_limited_if_the_layer_is_around_the_app() {
    let reached = Arc::new(AtomicUsize::new(0));
    let app = Router::new()
        .route("/", counting(&reached))
        .layer(RateLimitLayer::new(Memory::new().limiter("2/day").unwrap()));
    let server = serve(app).await;
    assert_eq!(Browser::h1().statuses(server, "/nowhere", 3).await, [404, 404, 429]);
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}
