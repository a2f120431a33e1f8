//! Concurrent clients get exactly the limit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use tollgate::{Atomic, Memory};
use tollgate_tower::{Decider, RateLimitLayer};

use crate::net::{Browser, counting, serve, serve_around};

/// Sends this many requests over eight connections. Returns how many passed.
async fn passed(server: SocketAddr, browser: fn() -> Browser, requests: usize) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        tasks.spawn(async move { browser().statuses(server, "/", requests / 8).await });
    }
    let statuses: Vec<u16> = tasks.join_all().await.concat();
    assert_eq!(statuses.len(), requests);
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

/// Tests the layer inside a router and around one.
async fn exactly_fifty_of_two_hundred<D: Decider>(limiter: fn() -> D, browser: fn() -> Browser) {
    let reached = Arc::new(AtomicUsize::new(0));
    let app = || Router::new().route("/", counting(&reached));
    let inside = serve(app().layer(RateLimitLayer::new(limiter()))).await;
    let around = serve_around(RateLimitLayer::new(limiter()).around(app())).await;
    for server in [inside, around] {
        assert_eq!(passed(server, browser, 200).await, 50);
        assert_eq!(reached.swap(0, Ordering::Relaxed), 50, "a denied request reached a handler");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_the_limit_passes_over_h1() {
    let limiter = || Memory::new().limiter("50/day fixed-window-per-key").unwrap();
    exactly_fifty_of_two_hundred(limiter, Browser::h1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_the_limit_passes_over_h2() {
    let limiter = || Atomic::new().limiter("50/day fixed-window-per-key").unwrap();
    exactly_fifty_of_two_hundred(limiter, Browser::h2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_the_least_of_a_policy_passes() {
    const POLICY: &str = "70/day fixed-window-per-key; 50/week fixed-window-per-key";
    let limiter = || Memory::new().limiter(POLICY).unwrap();
    exactly_fifty_of_two_hundred(limiter, Browser::h1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clones_of_a_layer_share_one_limit() {
    let reached = Arc::new(AtomicUsize::new(0));
    let layer = RateLimitLayer::new(Memory::new().limiter("50/day fixed-window-per-key").unwrap());
    let app = || Router::new().route("/", counting(&reached)).layer(layer.clone());
    let (one, two) = (serve(app()).await, serve(app()).await);
    let (a, b) = tokio::join!(passed(one, Browser::h1, 80), passed(two, Browser::h1, 80));
    assert_eq!(a + b, 50);
}
