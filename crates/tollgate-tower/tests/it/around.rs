//! A layer around a whole axum app: the same as inside of it, with the peer from the listener.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::routing::get;
use axum::{Extension, Router};
use tollgate::{Limiter, ManualClock, Memory};
use tollgate_tower::{ClientIp, Decided, Gate, KeyBy, RateLimitLayer, Refusal, Settle, SettleBy};
use tower::ServiceExt;

use crate::net::{Browser, eventually, serve, serve_around, stopped};

type Stopped = Limiter<Memory<ManualClock>>;

fn no(refusal: &Refusal<'_>) -> http::Response<String> {
    let peer = format!("{:?}", refusal.head.peer);
    http::Response::builder().status(refusal.status).body(peer).unwrap()
}

fn app() -> Router {
    let peer = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() };
    let decided =
        |decided: Option<Extension<Decided>>| async move { decided.is_some().to_string() };
    Router::new().route("/", get(peer)).route("/decided", get(decided))
}

#[tokio::test]
async fn responses_are_those_of_a_layer_inside() {
    let ways: [fn(RateLimitLayer<Stopped>) -> RateLimitLayer<Stopped>; 3] =
        [|layer| layer, RateLimitLayer::tell_handlers, |layer| layer.refusal(no)];
    for (way, browser) in
        ways.into_iter().flat_map(|way| [(way, Browser::h1()), (way, Browser::h2())])
    {
        let layer = || way(RateLimitLayer::new(stopped().limiter("4/minute name=api").unwrap()));
        let inside = serve(app().layer(layer())).await;
        let around = serve_around(layer().around(app())).await;
        let mut refused = 0;
        for path in ["/", "/decided", "/nowhere", "/", "/", "/nowhere"] {
            let (inside, mut around) =
                (browser.get(inside, path).await, browser.get(around, path).await);
            around.headers.insert("date", inside.headers.get("date").unwrap().clone());
            assert_eq!(
                (around.status, &around.headers, &around.body),
                (inside.status, &inside.headers, &inside.body)
            );
            refused += usize::from(around.status == 429);
        }
        assert_eq!(refused, 2);
    }
}

#[tokio::test]
async fn the_cost_of_a_body_is_settled_at_its_end() {
    let limiter = stopped().limiter("100/day").unwrap();
    let settle = SettleBy::body(|response| Settle::Cost(response.bytes));
    let layer = RateLimitLayer::from_gate(Gate::new(limiter.clone()).settle(settle));
    let server = serve_around(layer.around(app())).await;
    assert_eq!(Browser::h1().get(server, "/").await.body, "127.0.0.1");
    eventually("9 bytes", || limiter.usage("127.0.0.1") == 9).await;
}

#[tokio::test]
async fn the_layer_waits_for_a_gate_that_waits() {
    let limiter = Memory::new().limiter("50/second burst=1").unwrap();
    let layer = RateLimitLayer::from_gate(Gate::new(limiter).wait(Duration::from_secs(60)));
    let server = serve_around(layer.around(app())).await;
    assert_eq!(Browser::h1().statuses(server, "/", 3).await, [200, 200, 200]);
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_and_an_exempt_one_is_not_counted() {
    let gate = Gate::new(stopped().limiter("1/day").unwrap()).key(KeyBy::header("x-user"));
    let gate = gate.exempt(|head, _| head.path == "/decided");
    let refusing = gate.on_missing(tollgate_tower::OnMissing::Refuse(401));
    let server = serve_around(RateLimitLayer::from_gate(refusing).around(app())).await;
    let browser = Browser::h1();
    assert_eq!(browser.get(server, "/").await.status, 401);
    let user = [("x-user", "ann")];
    for (path, status) in [("/decided", 200), ("/", 200), ("/decided", 200), ("/", 429)] {
        assert_eq!(browser.get_with(server, path, &user).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn connections_of_one_client_share_its_limit() {
    let limiter = || stopped().limiter("1/day").unwrap();
    let behind_one = KeyBy::client_ip(ClientIp::behind_hops(1));
    let by_peer = RateLimitLayer::new(limiter()).around(app());
    let by_header = RateLimitLayer::from_gate(Gate::new(limiter()).key(behind_one)).around(app());
    for (app, peer, client, status) in [
        (&by_peer, "192.0.2.1", "a", 200),
        (&by_peer, "192.0.2.1", "b", 429),
        (&by_peer, "::ffff:192.0.2.1", "a", 429),
        (&by_peer, "192.0.2.2", "a", 200),
        (&by_peer, "2001:db8::1", "a", 200),
        (&by_peer, "2001:db8::2", "a", 429),
        (&by_peer, "2001:db8:0:1::1", "a", 200),
        (&by_header, "192.0.2.1", "203.0.113.1", 200),
        (&by_header, "192.0.2.1", "203.0.113.2", 200),
        (&by_header, "192.0.2.2", "203.0.113.1", 429),
    ] {
        let request = Request::builder().header("x-forwarded-for", client);
        let request = request.body(axum::body::Body::empty()).unwrap();
        let connection = app.connection(SocketAddr::new(peer.parse().unwrap(), 50_000));
        let Ok(response) = connection.oneshot(request).await;
        assert_eq!(response.status(), status, "{client} from {peer}");
    }
}

#[tokio::test]
async fn a_preflight_is_counted_unless_it_is_exempt() {
    let gate = || Gate::new(Memory::new().limiter("1/hour").unwrap());
    let preflight = Request::builder()
        .method("OPTIONS")
        .uri("/")
        .header("origin", "http://a.example")
        .header("access-control-request-method", "PUT");
    let preflight = preflight.body(()).unwrap();
    for (gate, second) in [(gate(), 429), (gate().exempt_preflight(), 405)] {
        let around = RateLimitLayer::from_gate(gate).around(app());
        let connection = around.connection(SocketAddr::from(([192, 0, 2, 1], 50_000)));
        for status in [405, second] {
            let request = preflight.clone().map(|()| axum::body::Body::empty());
            let Ok(response) = connection.clone().oneshot(request).await;
            assert_eq!(response.status(), status);
        }
    }
}

#[tokio::test]
async fn only_a_valid_preflight_is_exempt() {
    let gate = Gate::new(Memory::new().limiter("1/hour").unwrap()).exempt_preflight();
    let layer = RateLimitLayer::from_gate(gate);
    let connection = layer.around(app()).connection(SocketAddr::from(([192, 0, 2, 1], 50_000)));
    let ask = |preflight: bool| {
        let mut request = Request::builder().method("OPTIONS").uri("/");
        if preflight {
            request = request.header("access-control-request-method", "PUT");
            request = request.header("origin", "http://a.example");
        }
        connection.clone().oneshot(request.body(axum::body::Body::empty()).unwrap())
    };
    for (preflight, status) in [(true, 405), (false, 405), (true, 405), (false, 429)] {
        let Ok(response) = ask(preflight).await;
        assert_eq!(response.status(), status, "preflight {preflight}");
    }
}

#[tokio::test]
async fn a_shadow_reports_and_refuses_no_request() {
    let limiter = stopped().limiter("1/day").unwrap();
    let layer = RateLimitLayer::from_gate(Gate::new(limiter.clone()).shadow());
    let server = serve_around(layer.around(app())).await;
    for _ in 0..2 {
        let response = Browser::h1().get(server, "/").await;
        assert_eq!(response.status, 200);
        assert_eq!(response.items("ratelimit")[0].1[0], ("r".to_owned(), 0));
        assert_eq!(response.header("retry-after"), None);
    }
    assert_eq!(limiter.usage("127.0.0.1"), 1);
}

#[tokio::test]
async fn a_handler_that_panics_stays_charged_and_the_server_lives() {
    let limiter = stopped().limiter("2/day").unwrap();
    let app = app().route("/panics", get(|| async { panic!("planted") as () }));
    let server = serve_around(RateLimitLayer::new(limiter.clone()).around(app)).await;
    assert!(Browser::h1().try_get(server, "/panics").await.is_err());
    assert_eq!(limiter.usage("127.0.0.1"), 1);
    assert_eq!(Browser::h1().statuses(server, "/", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_peer_address_set_by_the_server_stays() {
    let said = |Extension(said): Extension<&'static str>| async move { said };
    let layer = RateLimitLayer::new(stopped().limiter("1/day").unwrap());
    let app = layer.around(Router::new().route("/", get(said)));
    let mut request = Request::new(axum::body::Body::empty());
    request.extensions_mut().insert("first");
    let connection = app.connection(SocketAddr::from(([192, 0, 2, 1], 50_000)));
    assert!(!format!("{connection:?}").contains("192.0.2.1"), "an address belongs to people");
    let Ok(response) = connection.oneshot(request).await;
    assert_eq!(response.status(), 200);
}
