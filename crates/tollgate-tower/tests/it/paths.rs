//! Rules about paths, with routers and layers that change the path of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use http::uri::PathAndQuery;
use tollgate::{Limiter, ManualClock, Memory};
use tollgate_tower::{Chooser, Gate, RateLimitLayer};
use tower::Service;

use crate::net::{Browser, counting, request, serve, serve_around, stopped};

/// One request per day on this path, and many on all others.
fn strict_on(path: &str) -> RateLimitLayer<Limiter<Memory<ManualClock>>> {
    let store = stopped();
    let chooser = Chooser::one(store.limiter("90/day").unwrap());
    let chooser = chooser.on("POST", path, store.limiter("1/day name=login").unwrap());
    RateLimitLayer::from_gate(Gate::from_chooser(chooser.unwrap()))
}

async fn posts<const N: usize>(server: std::net::SocketAddr, paths: [&str; N]) -> [u16; N] {
    let mut statuses = [0; N];
    for (path, status) in paths.iter().zip(&mut statuses) {
        let answer = Browser::h1().send(request("POST", server, path, &[])).await;
        *status = answer.status.as_u16();
    }
    statuses
}

#[tokio::test]
async fn a_rule_inside_nest_matches_the_whole_path_the_nested_one_and_the_route() {
    for path in ["/api/users/7", "/users/7", "/api/users/{id}", "/users/{id}", "/api/*"] {
        let users = Router::new().route("/users/{id}", post(|| async {})).layer(strict_on(path));
        let server = serve(Router::new().nest("/api", users)).await;
        assert_eq!(posts(server, ["/api/users/7"; 2]).await, [200, 429], "{path}");
    }
}

#[tokio::test]
async fn a_rule_with_a_parameter_matches_around_an_app() {
    let app = Router::new().route("/users/{id}", post(|| async {}));
    let server = serve_around(strict_on("/users/{id}").around(app)).await;
    assert_eq!(posts(server, ["/users/7", "/users/8", "/users/9/"]).await, [200, 429, 429]);
}

/// Takes slashes at the end and double ones from the path, as `NormalizePath` of tower-http does.
#[derive(Clone)]
struct Normalise<S>(S);

impl<S: Service<Request>> Service<Request> for Normalise<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> S::Future {
        let path = format!("/{}", request.uri().path().trim_matches('/'));
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(path).unwrap());
        *request.uri_mut() = http::Uri::from_parts(parts).unwrap();
        self.0.call(request)
    }
}

#[tokio::test]
async fn a_rule_matches_on_either_side_of_normalisation() {
    let reached = Arc::new(AtomicUsize::new(0));
    let login = || Router::new().route("/login", counting(&reached));
    let outside = Router::new().fallback_service(Normalise(login())).layer(strict_on("/login"));
    let around = strict_on("/login").around(Router::new().fallback_service(Normalise(login())));
    let inside = Router::new().fallback_service(Normalise(login().layer(strict_on("/login"))));
    let servers = [serve(outside).await, serve_around(around).await, serve(inside).await];
    for (server, before) in servers.into_iter().zip(0..) {
        assert_eq!(posts(server, ["//login/"]).await, [200]);
        assert_eq!(reached.load(Ordering::Relaxed), before + 1);
        let spellings = ["/login", "/login/", "//login", "//login//"];
        assert_eq!(posts(server, spellings).await, [429; 4]);
    }
}

#[tokio::test]
async fn an_exempt_path_exempts_no_other_spelling() {
    let store = stopped();
    let chooser = Chooser::one(store.limiter("1/day").unwrap()).unlimited("*", "/static/*");
    let layer = RateLimitLayer::from_gate(Gate::from_chooser(chooser.unwrap()));
    let server = serve(Router::new().fallback(|| async {}).layer(layer)).await;
    assert_eq!(posts(server, ["/static/a", "/static/b%20c", "/static/"]).await, [200; 3]);
    let spellings = ["/static/../login", "/static/%2e%2e/login", "/static//a", "//static/a"];
    assert_eq!(posts(server, spellings).await, [200, 429, 429, 429]);
}
