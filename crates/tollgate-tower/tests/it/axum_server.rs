//! The two lines of README in an axum app.

use axum::routing::get;
use axum::{Extension, Router};
use tollgate::Memory;
use tollgate_tower::{Decided, RateLimitLayer};

use crate::net::{Browser, serve, stopped};

#[tokio::test]
async fn every_response_has_remaining_and_a_refusal_a_retry_time() {
    let limiter = stopped().limiter("2/minute fixed-window-per-key name=api").unwrap();
    let app =
        Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::new(limiter));
    let server = serve(app).await;
    let browser = Browser::h1();

    for left in [1, 0] {
        let answer = browser.get(server, "/").await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, "hello"));
        assert_eq!(answer.items("ratelimit-policy"), [api(&[("q", 2), ("w", 60)])]);
        assert_eq!(answer.items("ratelimit"), [api(&[("r", left), ("t", 60)])]);
        assert_eq!(answer.header("retry-after"), None);
    }
    let refused = browser.get(server, "/").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.items("ratelimit"), [api(&[("r", 0), ("t", 60)])]);
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(refused.body, "too many requests: come back in 60 s\n");
}

fn api(params: &[(&str, i64)]) -> (String, Vec<(String, i64)>) {
    ("api".to_owned(), params.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect())
}

#[tokio::test]
async fn handlers_see_what_was_decided() {
    let limiter = Memory::new().limiter("5/minute").unwrap();
    let left = |Extension(decided): Extension<Decided>| async move {
        format!("{} of {}", decided.remaining(), decided.limit())
    };
    let layer = RateLimitLayer::new(limiter).tell_handlers();
    let server = serve(Router::new().route("/", get(left)).layer(layer)).await;
    assert_eq!(Browser::h1().get(server, "/").await.body, "4 of 5");
}

#[tokio::test]
async fn handlers_get_the_decision_only_if_the_layer_is_set_so() {
    let limiter = Memory::new().limiter("5/minute").unwrap();
    let told = |decided: Option<Extension<Decided>>| async move { decided.is_some().to_string() };
    let app = Router::new().route("/", get(told)).layer(RateLimitLayer::new(limiter));
    assert_eq!(Browser::h1().get(serve(app).await, "/").await.body, "false");
}
