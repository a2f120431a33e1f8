//! The admin port: metrics, health, readiness, the busiest keys and the rules in force.

mod keys;
mod metrics;
mod ready;
mod rules;
mod text;

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tollgate::{Clock as _, SystemClock};

use crate::auth::ClientGate;
use crate::http::{Browsers, Problem, Reply, Talk, bytes, of_json, unauthorized};
use crate::net::{Draining, Port};
use crate::observe::Protocol;
use crate::service::Service;

/// For people who look at it with a browser or curl.
const HELP: &str = "\
tollgate, for operators

GET /metrics       for Prometheus, by rule and port
GET /health        the process answers
GET /ready         the store can be written to as well, and nobody told the server to stop
GET /keys          the busiest and the most denied keys; ?top=20
GET /rules         the rules in force, and how their hits ended
";

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, draining: Draining) {
    let clock = SystemClock::new();
    let (gate, browsers) = (port.gate(), Browsers::new(&port));
    let talk = Arc::new(Talk::new(port.patience(), Arc::clone(&service), Protocol::Admin));
    port.serve(draining, move |stream, _peer, draining| {
        let (service, gate) = (Arc::clone(&service), Arc::clone(&gate));
        let talk = Arc::clone(&talk);
        async move {
            let told = draining.clone();
            let answer = |request: Request<Incoming>| {
                let (service, told, gate) = (Arc::clone(&service), told.clone(), Arc::clone(&gate));
                async move {
                    if !admitted(&gate, &request) {
                        service.observer().port(Protocol::Admin).refuse();
                        return unauthorized(request.headers());
                    }
                    if !is_health(&request)
                        && gate.is_open()
                        && let Some(problem) = browsers.refuse(&request)
                    {
                        service.observer().port(Protocol::Admin).refuse();
                        return problem.response();
                    }
                    let begin = clock.now();
                    let answer = routed(&service, &told, &request).await;
                    let stats = service.observer().port(Protocol::Admin);
                    stats.spans.saw(clock.now().since(begin));
                    answer.unwrap_or_else(|problem| problem.response())
                }
            };
            talk.on(stream, draining, answer).await;
        }
    })
    .await;
}

/// Health is told to everybody: who looks after the server has no token.
fn admitted(gate: &ClientGate, request: &Request<Incoming>) -> bool {
    is_health(request) || gate.admits_headers(request.headers())
}

fn is_health(request: &Request<Incoming>) -> bool {
    matches!(request.uri().path(), "/health" | "/ready")
}

async fn routed(
    service: &Service,
    draining: &Draining,
    request: &Request<Incoming>,
) -> Result<Response<Reply>, Problem> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let detail = format!("method {}: expected GET", request.method());
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail));
    }
    match request.uri().path() {
        "/" => Ok(plain("text/plain; charset=utf-8", HELP.to_owned())),
        "/metrics" => Ok(plain("text/plain; version=0.0.4; charset=utf-8", metrics::text(service))),
        "/health" => Ok(of_json(StatusCode::OK, "{\"health\":\"alive\"}".to_owned())),
        "/ready" => Ok(ready::answer(service, draining).await),
        "/keys" => keys::answer(service, request.uri().query().unwrap_or("")),
        "/rules" => Ok(of_json(StatusCode::OK, rules::text(service))),
        path => Err(Problem::new(
            StatusCode::NOT_FOUND,
            format!("path {path:?}: unknown; known are /metrics, /health, /ready, /keys, /rules"),
        )),
    }
}

fn plain(kind: &'static str, body: String) -> Response<Reply> {
    let mut response = bytes(StatusCode::OK, body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
