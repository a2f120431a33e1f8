//! The client's address over real sockets: headers of a client do not help it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use tollgate::{Limiter, Memory};
use tollgate_tower::{ClientIp, Gate, KeyBy, OnMissing, RateLimitLayer};

use crate::net::{Browser, counting, serve, serve_at, serve_without_peers};

fn limiter() -> Limiter<Memory> {
    Memory::new().limiter("3/day fixed-window-per-key").unwrap()
}

fn app(gate: Gate<Limiter<Memory>>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::from_gate(gate))
}

async fn status(server: SocketAddr, headers: &[(&str, &str)]) -> u16 {
    Browser::h1().get_with(server, "/", headers).await.status.as_u16()
}

#[tokio::test]
async fn made_up_addresses_have_no_effect_without_trusted_proxies() {
    let limiter = limiter();
    let server = serve(app(Gate::new(limiter.clone()))).await;
    let mut statuses = Vec::new();
    for host in 1..=5 {
        let made_up = format!("203.0.113.{host}");
        let forwarded = format!("for={made_up}");
        let headers = [("x-forwarded-for", &*made_up), ("forwarded", &*forwarded)];
        statuses.push(status(server, &headers).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(limiter.usage("127.0.0.1"), 3);
}

#[tokio::test]
async fn behind_trusted_ranges_the_right_most_untrusted_address_is_the_client() {
    let limiter = limiter();
    let client = ClientIp::behind(["127.0.0.0/8", "10.0.0.0/8"]).unwrap();
    let gate = Gate::new(limiter.clone()).key(KeyBy::client_ip(client));
    let server = serve(app(gate)).await;
    let mut statuses = Vec::new();
    for host in 1..=4 {
        // The client invented the left part; proxies wrote the rest.
        let line = format!("6.6.6.{host}, 203.0.113.7, 10.1.2.3");
        statuses.push(status(server, &[("x-forwarded-for", &line)]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(status(server, &[("x-forwarded-for", "203.0.113.8")]).await, 200);
    assert_eq!(limiter.usage("203.0.113.7"), 3);
    // The same on several lines.
    let lines = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "203.0.113.7")];
    assert_eq!(status(server, &lines).await, 429);
}

#[tokio::test]
async fn behind_one_hop_the_last_entry_is_the_client() {
    let limiter = limiter();
    let gate = Gate::new(limiter.clone()).key(KeyBy::client_ip(ClientIp::behind_hops(1)));
    let server = serve(app(gate)).await;
    let mut statuses = Vec::new();
    for host in 1..=4 {
        let line = format!("6.6.6.{host}, 2001:db8::{host}");
        statuses.push(status(server, &[("x-forwarded-for", &line)]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429], "addresses of one /64 are one client");
    assert_eq!(limiter.usage("2001:db8::"), 3);
}

#[tokio::test]
async fn ipv6_peers_are_clients_by_prefix() {
    let limiter = limiter();
    let server = serve_at("[::1]:0", app(Gate::new(limiter.clone()))).await;
    assert_eq!(Browser::h1().statuses(server, "/", 4).await, [200, 200, 200, 429]);
    assert_eq!(limiter.usage("::"), 3, "the /64 of ::1");
}

#[tokio::test]
async fn an_ipv4_peer_of_a_dual_stack_socket_is_an_ipv4_client() {
    let limiter = limiter();
    let server = serve_at("[::]:0", app(Gate::new(limiter.clone()))).await;
    let server = SocketAddr::from(([127, 0, 0, 1], server.port()));
    assert_eq!(Browser::h2().get(server, "/").await.status, 200);
    assert_eq!(limiter.usage("127.0.0.1"), 1);
}

#[tokio::test]
async fn requests_without_an_address_share_one_bucket() {
    let limiter = limiter();
    let server = serve_without_peers(app(Gate::new(limiter.clone()))).await;
    let (one, two) = (Browser::h1(), Browser::h1());
    assert_eq!(one.statuses(server, "/", 2).await, [200, 200]);
    assert_eq!(two.statuses(server, "/", 2).await, [200, 429]);
    assert_eq!(limiter.usage(""), 3);
}

#[tokio::test]
async fn requests_without_an_address_are_refused_if_configured() {
    let reached = Arc::new(AtomicUsize::new(0));
    for (rule, expected) in [(400, 400), (403, 403), (9, 429)] {
        let gate = Gate::new(limiter()).on_missing(OnMissing::Refuse(rule));
        let app =
            Router::new().route("/", counting(&reached)).layer(RateLimitLayer::from_gate(gate));
        let server = serve_without_peers(app).await;
        let answer = Browser::h1().get(server, "/").await;
        assert_eq!(answer.status.as_u16(), expected);
        assert_eq!(answer.body, "this request does not say who sends it\n");
    }
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn secrets_are_keys_by_their_hash() {
    let limiter = limiter();
    let gate = Gate::new(limiter.clone()).key(KeyBy::bearer());
    let server = serve(app(gate)).await;
    for _ in 0..3 {
        assert_eq!(status(server, &[("authorization", "Bearer s3cret")]).await, 200);
    }
    assert_eq!(status(server, &[("authorization", "bearer s3cret")]).await, 429);
    assert_eq!(status(server, &[("authorization", "Bearer other")]).await, 200);
    assert_eq!(limiter.usage("s3cret"), 0);
}
