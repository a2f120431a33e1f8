//! Settling by the body, and bodies and handlers that fail.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use tollgate::{Limiter, ManualClock, Memory};
use tollgate_tower::{Gate, PeerAddr, RateLimitLayer, Settle, SettleBy};
use tower::{Layer, Service};

use crate::net::{Browser, counting, eventually, request, serve, stopped};

fn by_byte(limiter: &Limiter<Memory<ManualClock>>) -> RateLimitLayer<Limiter<Memory<ManualClock>>> {
    let settle = SettleBy::body(|response| Settle::Cost(response.bytes));
    RateLimitLayer::from_gate(Gate::new(limiter.clone()).settle(settle))
}

/// Three pieces; the last two are not there when the first is sent.
async fn in_pieces() -> Body {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        for piece in ["one", "two", "three"] {
            let _ = sender.send_data(Bytes::from_static(piece.as_bytes())).await;
            tokio::task::yield_now().await;
        }
    });
    Body::new(body)
}

#[tokio::test]
async fn a_streamed_body_costs_its_bytes_when_it_has_ended() {
    for browser in [Browser::h1(), Browser::h2()] {
        let limiter = stopped().limiter("100/day").unwrap();
        let app = Router::new().route("/", get(in_pieces)).layer(by_byte(&limiter));
        let server = serve(app).await;
        let answer = browser.get(server, "/").await;
        assert_eq!(answer.body, "onetwothree");
        eventually("11 bytes", || limiter.usage("127.0.0.1") == 11).await;
    }
}

#[tokio::test]
async fn work_without_a_body_costs_the_minimum() {
    let limiter = stopped().limiter("60/day").unwrap();
    let settle = SettleBy::body(|response| Settle::Cost(response.bytes)).minimum(20);
    let layer = RateLimitLayer::from_gate(Gate::new(limiter.clone()).settle(settle));
    let reached = Arc::new(AtomicUsize::new(0));
    let app = Router::new().route("/", counting(&reached)).layer(layer);
    let server = serve(app).await;
    for used in [20, 40, 60] {
        let head = request("HEAD", server, "/", &[]);
        assert_eq!(Browser::h1().send(head).await.status, 200);
        eventually("the minimum", || limiter.usage("127.0.0.1") == used).await;
    }
    assert_eq!(Browser::h1().send(request("HEAD", server, "/", &[])).await.status, 429);
    assert_eq!(reached.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn an_empty_body_and_one_that_is_dropped_unread_cost_a_unit() {
    let limiter = stopped().limiter("100/day").unwrap();
    let app = Router::new().route("/", get(|| async {})).layer(by_byte(&limiter));
    let server = serve(app).await;
    assert_eq!(Browser::h1().get(server, "/").await.status, 200);
    eventually("the response", || limiter.usage("127.0.0.1") == 1).await;

    let mut stream = by_byte(&limiter).layer(Router::new().route("/", get(in_pieces)));
    let peer = PeerAddr(SocketAddr::from(([192, 0, 2, 1], 443)));
    for used in 1..=3 {
        let mut request = http::Request::new(Body::empty());
        request.extensions_mut().insert(peer);
        let Ok(response) = stream.call(request).await;
        drop(response);
        assert_eq!(limiter.usage("192.0.2.1"), used);
    }
}

#[tokio::test]
async fn a_body_that_the_client_abandons_costs_the_bytes_sent() {
    for h2 in [false, true] {
        let limiter = stopped().limiter("1000000/day").unwrap();
        let endless = || async {
            let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
            tokio::spawn(async move {
                while sender.send_data(Bytes::from_static(&[7; 10])).await.is_ok() {
                    tokio::task::yield_now().await;
                }
            });
            Body::new(body)
        };
        let app = Router::new().route("/", get(endless)).layer(by_byte(&limiter));
        let server = serve(app).await;
        let browser = if h2 { Browser::h2() } else { Browser::h1() };
        let mut response = browser.open(server, "/").await;
        let mut read = 0;
        while read < 25 {
            read += response.frame().await.unwrap().unwrap().into_data().unwrap().len() as u64;
        }
        assert_eq!(limiter.usage("127.0.0.1"), 1, "not settled while it goes on");
        drop((response, browser));
        eventually("what was sent", || limiter.usage("127.0.0.1") >= read).await;
        assert_eq!(limiter.usage("127.0.0.1") % 10, 0);
    }
}

#[tokio::test]
async fn a_handler_that_panics_stays_charged_and_the_server_lives() {
    let limiter = stopped().limiter("3/day").unwrap();
    let reached = Arc::new(AtomicUsize::new(0));
    let panics = {
        let reached = Arc::clone(&reached);
        move || async move {
            reached.fetch_add(1, Ordering::Relaxed);
            assert!(reached.load(Ordering::Relaxed) == 0, "planted");
        }
    };
    let refund = SettleBy::head(|_| Settle::Nothing);
    let app = Router::new()
        .route("/panics", get(panics))
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::from_gate(Gate::new(limiter.clone()).settle(refund)));
    let server = serve(app).await;
    for charged in 1..=3 {
        assert!(Browser::h1().try_get(server, "/panics").await.is_err());
        assert_eq!(limiter.usage("127.0.0.1"), charged);
    }
    assert_eq!(reached.load(Ordering::Relaxed), 3);
    assert_eq!(Browser::h1().get(server, "/panics").await.status, 429);
    limiter.clear();
    assert_eq!(Browser::h1().get(server, "/").await.body, "hello");
}

/// A piece, and then a panic.
struct Breaks(bool);

impl http_body::Body for Breaks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(!std::mem::replace(&mut self.0, true), "planted");
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"piece")))))
    }
}

#[tokio::test]
async fn a_body_that_panics_stays_charged() {
    let limiter = stopped().limiter("1000/day").unwrap();
    let settled = Arc::new(AtomicUsize::new(0));
    let settle = {
        let settled = Arc::clone(&settled);
        SettleBy::body(move |_| {
            settled.fetch_add(1, Ordering::Relaxed);
            panic!("a second panic would end the process");
        })
    };
    let gate = Gate::new(limiter.clone()).settle(settle);
    let app = Router::new()
        .route("/", get(|| async { Body::new(Breaks(false)) }))
        .layer(RateLimitLayer::from_gate(gate));
    let server = serve(app).await;
    if let Ok(response) = Browser::h1().try_get(server, "/").await {
        assert!(response.into_body().collect().await.is_err());
    }
    assert_eq!(limiter.usage("127.0.0.1"), 1);
    assert_eq!(settled.load(Ordering::Relaxed), 0);
}
