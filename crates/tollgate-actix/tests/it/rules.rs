//! The other rules of a gate.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::{self, ReqData, ServiceConfig};
use tollgate::{Decision, Memory};
use tollgate_actix::RateLimit;
use tollgate_http::{Chooser, Gate};

use crate::client::{Answer, get, send};
use crate::server::{serve, store};

fn ok(app: &mut ServiceConfig) {
    app.default_service(web::to(HttpResponse::Ok));
}

#[test]
fn preflight_requests_are_free() {
    let (store, _) = store();
    let limiter = store.limiter("1/hour").unwrap();
    let preflight = ["origin: https://a.test", "access-control-request-method: PUT"];
    let server = serve(RateLimit::new(limiter.clone()), ok);
    for _ in 0..3 {
        let answer = send(server.address, "OPTIONS /", &preflight).unwrap();
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    // Without that header it is a request like any other.
    assert_eq!(send(server.address, "OPTIONS /", &[]).unwrap().status, 200);
    assert_eq!(get(server.address, "/").status, 429);

    let server = serve(RateLimit::of(Gate::new(limiter).count_preflight()), ok);
    assert_eq!(send(server.address, "OPTIONS /", &preflight).unwrap().status, 429);
}

#[test]
fn a_shadow_counts_and_refuses_nobody() {
    let (store, _) = store();
    let limiter = store.limiter("1/hour").unwrap();
    let gate = Gate::new(limiter.clone()).shadow();
    let server = serve(RateLimit::of(gate), |app| {
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
    let server = serve(RateLimit::of(gate), ok);
    for _ in 0..3 {
        assert_eq!(send(server.address, "GET /", &["x-probe: 1"]).unwrap().status, 200);
    }
    assert_eq!([get(server.address, "/").status, get(server.address, "/").status], [200, 429]);
}

#[test]
fn each_route_has_its_own_limit() {
    let (store, _) = store();
    let chooser = Chooser::one(store.limiter("3/hour").unwrap())
        .on(Some("POST"), "/login", Some(store.limiter("1/hour").unwrap()))
        .on(None, "/static/*", None);
    let server = serve(RateLimit::of(Gate::choosing(chooser)), ok);
    let status = |line: &str| send(server.address, line, &[]).unwrap().status;
    assert_eq!(["POST /login", "POST /login?x=1", "GET /login"].map(status), [200, 429, 200]);
    assert_eq!(["GET /static/a"; 5].map(status), [200; 5]);
    assert_eq!(["GET /a", "GET /b", "GET /c"].map(status), [200, 200, 429]);
}

#[test]
fn a_path_in_another_spelling_has_the_same_limit() {
    let (store, _) = store();
    let chooser = Chooser::one(store.limiter("9/hour").unwrap()).on(
        Some("GET"),
        "/login",
        Some(store.limiter("1/hour").unwrap()),
    );
    let server = serve(RateLimit::of(Gate::choosing(chooser)), |app| {
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
    let (free, paid) = (store.limiter("1/hour").unwrap(), store.limiter("2/hour").unwrap());
    let chooser = Chooser::plan(move |head| {
        let plan = head.line("x-plan").map(<[u8]>::to_vec);
        let (free, paid) = (free.clone(), paid.clone());
        async move {
            actix_web::rt::task::yield_now().await;
            match plan.as_deref() {
                Some(b"staff") => None,
                Some(b"paid") => Some(paid),
                _ => Some(free),
            }
        }
    });
    let server = serve(RateLimit::of(Gate::choosing(chooser)), ok);
    let status =
        |plan: &str| send(server.address, "GET /", &[&format!("x-plan: {plan}")]).unwrap().status;
    assert_eq!(["free", "free", "paid", "paid", "paid"].map(status), [200, 429, 200, 200, 429]);
    assert_eq!(["staff"; 4].map(status), [200; 4]);
}

#[test]
fn who_waits_gets_through_in_the_end() {
    // On the real clock: the third comes after 100 ms at the earliest, whenever that is.
    let limiter = Memory::new().limiter("1/50ms").unwrap();
    let gate = Gate::new(limiter).wait(Duration::from_secs(60));
    let server = serve(RateLimit::of(gate), ok);
    let to = server.address;
    let clients = [(); 3].map(|()| std::thread::spawn(move || get(to, "/").status));
    assert_eq!(clients.map(|client| client.join().unwrap()), [200; 3]);
}

#[test]
fn a_wait_that_would_be_too_long_is_refused_at_once() {
    let (store, _) = store();
    let gate = Gate::new(store.limiter("1/hour").unwrap()).wait(Duration::from_secs(600));
    let server = serve(RateLimit::of(gate), ok);
    assert_eq!([get(server.address, "/").status, get(server.address, "/").status], [200, 429]);
}
