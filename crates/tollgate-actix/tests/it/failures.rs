//! A store that does not answer.

use actix_web::HttpResponse;
use actix_web::web::{self, ServiceConfig};
use tollgate::shared::{OnFailure, SharedLimiter};
use tollgate_actix::{RateLimit, Reason};

use crate::away::Away;
use crate::client::get;
use crate::server::serve;

fn ok(app: &mut ServiceConfig) {
    app.default_service(web::to(HttpResponse::Ok));
}

#[test]
fn a_store_that_waits_decides_as_one_in_process() {
    let limiter = SharedLimiter::new(&Away::new(), "", "2/hour").unwrap();
    let server = serve(RateLimit::new(limiter), ok);
    assert_eq!([(); 3].map(|()| get(server.address, "/").status), [200, 200, 429]);
}

#[test]
fn an_unavailable_store_is_a_503_if_the_limiter_has_no_rule_for_failures() {
    let store = Away::new();
    let limiter = SharedLimiter::new(&store, "", "2/hour").unwrap();
    let server = serve(RateLimit::new(limiter.clone()), ok);
    store.set(true);
    let answer = get(server.address, "/");
    assert_eq!(answer.status, 503);
    assert!(!answer.text().contains("192.0.2.99"), "{answer:?}");

    let own = RateLimit::new(limiter).refusal(|refusal| {
        assert!(matches!(refusal.reason, Reason::StoreFailed(_)));
        HttpResponse::BadGateway().finish()
    });
    assert_eq!(get(serve(own, ok).address, "/").status, 502);
}

#[test]
fn an_unavailable_store_follows_the_rule_of_its_limiter() {
    for (rule, status) in [(OnFailure::Open, 200), (OnFailure::Closed, 429)] {
        let store = Away::new();
        store.set(true);
        let limiter = SharedLimiter::new(&store, "", "2/hour").unwrap().on_failure(rule).unwrap();
        let server = serve(RateLimit::new(limiter), ok);
        assert_eq!([(); 4].map(|()| get(server.address, "/").status), [status; 4], "{rule:?}");
    }
}
