//! Shared stores that answer late, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::AppendHeaders;
use axum::routing::get;
use tollgate::shared::{OnFailure, SharedLimiter};
use tollgate_tower::{Gate, RateLimitLayer, Settle, SettleBy};

use crate::flaky::Flaky;
use crate::net::{Browser, counting, serve};

const KEY: &str = "127.0.0.1";

#[tokio::test]
async fn a_shared_store_limits_and_reports_like_any_other() {
    let store = Flaky::new();
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::new(store.limiter("9/day; 2/week name=week")));
    let server = serve(app).await;
    let browser = Browser::h1();
    assert_eq!(browser.statuses(server, "/", 2).await, [200, 200]);
    let refused = browser.get(server, "/").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.items("ratelimit")[0].0, "week");
    assert_eq!(refused.items("ratelimit-policy").len(), 2);
}

#[tokio::test]
async fn a_store_that_fails_is_a_503_or_follows_the_rule_of_the_limiter() {
    for (rule, expected, reaches) in
        [(OnFailure::Error, 503, 0), (OnFailure::Closed, 429, 0), (OnFailure::Open, 200, 1)]
    {
        let (store, reached) = (Flaky::new(), Arc::new(AtomicUsize::new(0)));
        let limiter = store.limiter("5/day").on_failure(rule).unwrap();
        let app = Router::new().route("/", counting(&reached)).layer(RateLimitLayer::new(limiter));
        let server = serve(app).await;
        store.fail(true);
        let answer = Browser::h1().get(server, "/").await;
        assert_eq!(answer.status.as_u16(), expected, "{rule:?}");
        assert_eq!(reached.load(Ordering::Relaxed), reaches, "{rule:?}");
        if rule == OnFailure::Error {
            assert_eq!(answer.body, "the rate limiter does not answer\n");
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
        store.fail(false);
        assert_eq!(Browser::h1().get(server, "/").await.status, 200);
    }
}

fn settling(limiter: &SharedLimiter<Flaky>, settle: SettleBy) -> Router {
    let handler = || async { (AppendHeaders([("x-cost", "4")]), "seven b") };
    let gate = Gate::new(limiter.clone()).settle(settle);
    Router::new().route("/", get(handler)).layer(RateLimitLayer::from_gate(gate))
}

#[tokio::test]
async fn a_response_is_held_until_a_shared_store_knows_its_cost() {
    let limiter = Flaky::new().limiter("100/day");
    let server = serve(settling(&limiter, SettleBy::header("x-cost"))).await;
    assert_eq!(Browser::h1().get(server, "/").await.status, 200);
    assert_eq!(limiter.usage(KEY).await.unwrap(), 4);
    let server = serve(settling(&limiter, SettleBy::head(|_| Settle::Nothing))).await;
    assert_eq!(Browser::h1().get(server, "/").await.status, 200);
    assert_eq!(limiter.usage(KEY).await.unwrap(), 4);
}

#[tokio::test]
async fn bytes_are_settled_with_a_shared_store_after_the_body() {
    let limiter = Flaky::new().limiter("100/day");
    let settle = SettleBy::body(|response| Settle::Cost(response.bytes));
    let server = serve(settling(&limiter, settle)).await;
    assert_eq!(Browser::h1().get(server, "/").await.body, "seven b");
    while limiter.usage(KEY).await.unwrap() != 7 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_response_is_sent_although_its_cost_cannot_be_settled() {
    let store = Flaky::new();
    let limiter = store.limiter("100/day");
    let down = store.clone();
    let settle = SettleBy::head(move |_| {
        down.fail(true);
        Settle::Cost(50)
    });
    let server = serve(settling(&limiter, settle)).await;
    assert_eq!(Browser::h1().get(server, "/").await.body, "seven b");
    store.fail(false);
    assert_eq!(limiter.usage(KEY).await.unwrap(), 1);
}
