//! The other rules of a gate.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::{self, ReqData, ServiceConfig};
use tollgate::{Decision, Limiter, ManualClock, Memory};
use tollgate_actix::{Caller, Chooser, Gate, KeyBy, OnMissing, RateLimit};

use crate::client::{Answer, get, send};
use crate::server::{Server, serve, serve_normalised, store};

fn ok(app: &mut ServiceConfig) {
    app.default_service(web::to(HttpResponse::Ok));
}

#[test]
fn preflight_requests_are_counted_unless_they_are_exempt() {
    let (store, _) = store();
    let preflight = ["origin: https://a.test", "access-control-request-method: PUT"];
    let options =
        |server: &Server, headers: &[&str]| send(server.address, "OPTIONS /", headers).unwrap();
    let server = serve(RateLimit::new(store.limiter("2/hour name=counted").unwrap()), ok);
    let statuses = [(); 3].map(|()| options(&server, &preflight).status);
    assert_eq!(statuses, [200, 200, 429]);

    let gate = Gate::new(store.limiter("1/hour name=exempt").unwrap()).exempt_preflight();
    let server = serve(RateLimit::from_gate(gate.clone()), ok);
    for _ in 0..3 {
        let answer = options(&server, &preflight);
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    // A request that no browser sends as a preflight is counted.
    assert_eq!(options(&server, &["access-control-request-method: PUT"]).status, 200);
    for headers in [
        &["access-control-request-method: PUT"][..],
        &["origin: https://a.test", "access-control-request-method:"],
        &["origin:", "access-control-request-method: PUT"],
        &["origin: https://a.test", "access-control-request-method: PUT, GET"],
        &["origin: https://a.test"],
    ] {
        assert_eq!(options(&server, headers).status, 429, "{headers:?}");
    }
    // A preflight without a key is refused where keys are needed.
    let keyed = gate.key(KeyBy::header("x-user")).on_missing(OnMissing::Refuse(401));
    let server = serve(RateLimit::from_gate(keyed), ok);
    assert_eq!(options(&server, &preflight).status, 401);
}

#[test]
fn a_shadow_counts_and_never_refuses() {
    let (store, _) = store();
    let limiter = store.limiter("1/hour").unwrap();
    let gate = Gate::new(limiter.clone()).shadow();
    let server = serve(RateLimit::from_gate(gate), |app| {
        let allowed = |decision: ReqData<Decision>| async move { decision.allowed().to_string() };
        app.route("/", web::get().to(allowed));
    });
    let answers = [(); 3].map(|()| get(server.address, "/"));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200; 3]);
    assert_eq!(answers.each_ref().map(Answer::text), ["true", "false", "false"]);
    assert!(answers.iter().all(|answer| answer.header("retry-after").is_none()));
    assert_eq!(limiter.peek("127.0.0.1").used(), 1);
}

#[test]
fn exempt_requests_are_not_counted() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("1/hour").unwrap())
        .exempt(|head, _key| head.line("x-probe").is_some());
    let server = serve(RateLimit::from_gate(gate), ok);
    for _ in 0..3 {
        assert_eq!(send(server.address, "GET /", &["x-probe: 1"]).unwrap().status, 200);
    }
    assert_eq!([get(server.address, "/").status, get(server.address, "/").status], [200, 429]);
}

#[test]
fn each_route_has_its_own_limit() {
    let (store, _) = store();
    let chooser = Chooser::one(store.limiter("3/hour").unwrap())
        .on("POST", "/login", store.limiter("1/hour").unwrap())
        .and_then(|chooser| chooser.unlimited("*", "/static/*"));
    let server = serve(RateLimit::from_gate(Gate::from_chooser(chooser.unwrap())), ok);
    let status = |line: &str| send(server.address, line, &[]).unwrap().status;
    assert_eq!(["POST /login", "POST /login?x=1", "GET /login"].map(status), [200, 429, 200]);
    assert_eq!(["GET /static/a"; 5].map(status), [200; 5]);
    assert_eq!(["GET /a", "GET /b", "GET /c"].map(status), [200, 200, 429]);
}

#[test]
fn a_path_in_another_spelling_has_the_same_limit() {
    let (store, _) = store();
    let chooser = Chooser::one(store.limiter("9/hour").unwrap());
    let chooser = chooser.on("GET", "/login", store.limiter("1/hour").unwrap()).unwrap();
    let server = serve(RateLimit::from_gate(Gate::from_chooser(chooser)), |app| {
        let login = web::resource("/login").route(web::get().to(HttpResponse::Ok));
        app.service(login.route(web::head().to(HttpResponse::Ok)));
    });
    let status = |line: &str| send(server.address, line, &[]).unwrap().status;
    let spellings = ["GET /login", "GET /%6cogin", "GET /log%69n?x", "HEAD /login"];
    assert_eq!(spellings.map(status), [200, 429, 429, 429]);
}

#[test]
fn a_plan_is_looked_up_for_each_request() {
    let (store, _) = store();
    let plans = (store.limiter("1/hour").unwrap(), store.limiter("2/hour").unwrap());
    let chooser = Chooser::plan(plans, |plans, head| {
        let plan = head.line("x-plan").map(<[u8]>::to_vec);
        async move {
            actix_web::rt::task::yield_now().await;
            match plan.as_deref() {
                Some(b"staff") => None,
                Some(b"paid") => Some(plans.1.clone()),
                _ => Some(plans.0.clone()),
            }
        }
    });
    let server = serve(RateLimit::from_gate(Gate::from_chooser(chooser)), ok);
    let status =
        |plan: &str| send(server.address, "GET /", &[&format!("x-plan: {plan}")]).unwrap().status;
    assert_eq!(["free", "free", "paid", "paid", "paid"].map(status), [200, 429, 200, 200, 429]);
    assert_eq!(["staff"; 4].map(status), [200; 4]);
}

#[test]
fn a_waiting_request_passes_in_the_end() {
    // The test runs on the real clock: the third request is admitted after 100 ms at the earliest,
    // whenever that is.
    let limiter = Memory::new().limiter("1/50ms").unwrap();
    let gate = Gate::new(limiter).wait(Duration::from_secs(60));
    let server = serve(RateLimit::from_gate(gate), ok);
    let to = server.address;
    let clients = [(); 3].map(|()| std::thread::spawn(move || get(to, "/").status));
    assert_eq!(clients.map(|client| client.join().unwrap()), [200; 3]);
}

#[test]
fn a_wait_that_would_be_too_long_is_refused_immediately() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("1/hour").unwrap()).wait(Duration::from_secs(600));
    let server = serve(RateLimit::from_gate(gate), ok);
    assert_eq!([get(server.address, "/").status, get(server.address, "/").status], [200, 429]);
}

#[test]
fn an_invented_key_is_limited_by_address_and_a_known_one_by_its_caller() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("2/hour").unwrap()).callers("s3cret", |known, head| {
        let known = head.line("x-api-key") == Some(known.as_bytes());
        async move {
            actix_web::rt::task::yield_now().await;
            known.then(|| Caller::new("acme"))
        }
    });
    let server = serve(RateLimit::from_gate(gate), ok);
    let status =
        |key: &str| send(server.address, "GET /", &[&format!("x-api-key: {key}")]).unwrap().status;
    assert_eq!(["x1", "x2", "x3", "x4"].map(status), [200, 200, 429, 429]);
    assert_eq!(["s3cret"; 3].map(status), [200, 200, 429]);
}

/// `POST /login` with its own limit, below a prefix.
fn login(app: &mut ServiceConfig) {
    app.service(web::resource("/login").route(web::post().to(HttpResponse::Ok)));
}

fn strict_on(path: &str) -> RateLimit<Limiter<Memory<ManualClock>>> {
    let (store, _) = store();
    let chooser = Chooser::one(store.limiter("90/hour").unwrap());
    let chooser = chooser.on("POST", path, store.limiter("1/hour name=login").unwrap());
    RateLimit::from_gate(Gate::from_chooser(chooser.unwrap()))
}

#[test]
fn a_rule_in_a_scope_matches_the_whole_path_and_the_nested_one() {
    for path in ["/api/login", "/login", "/api/*"] {
        let limit = strict_on(path);
        let server = serve(RateLimit::new(Memory::new().limiter("90/hour").unwrap()), move |app| {
            app.service(web::scope("/api").wrap(limit.clone()).configure(login));
        });
        let status = |line: &str| send(server.address, line, &[]).unwrap().status;
        assert_eq!(["POST /api/login", "POST /api/login"].map(status), [200, 429], "{path}");
    }
}

#[test]
fn a_rule_matches_the_route() {
    let server = serve(strict_on(r"/users/{id:\d+}/{rest:.*}"), |app| {
        let users = web::resource(r"/users/{id:\d+}/{rest:.*}");
        app.service(users.route(web::post().to(HttpResponse::Ok)));
    });
    let status = |line: &str| send(server.address, line, &[]).unwrap().status;
    assert_eq!(["POST /users/7/a/b", "POST /users/8/c/d/e"].map(status), [200, 429]);
}

/// The limit is outside of the normalisation, and sees the original paths.
#[test]
fn a_rule_matches_a_path_that_is_normalised_after_the_limit() {
    let server = serve_normalised(strict_on("/login"), login);
    let status = |line: &str| send(server.address, line, &[]).unwrap().status;
    assert_eq!(status("POST //login/"), 200, "it reaches the handler");
    for line in ["POST /login", "POST /login/", "POST //login", "POST /%6cogin"] {
        assert_eq!(status(line), 429, "{line}");
    }
}
