//! The admin port: metrics, health, readiness, the rules in force, the busiest keys, and the
//! dashboard with its API.
//!
//! ```text
//! request ──▶ access (token, session) ──▶ text for curl and Prometheus
//!                                    └──▶ api/ (JSON, events) ◀── page (HTML, JavaScript)
//! ```

mod access;
mod api;
mod keys;
mod metrics;
mod page;
mod ready;
mod rules;
mod session;
mod text;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use tollgate::{Clock as _, SystemClock};

use crate::http::{Problem, Reply, Talk, bytes, of_json, unauthorized};
use crate::net::{Draining, Port};
use crate::observe::Protocol;
use crate::service::Service;
use access::{Access, Refused};
use api::Events;

/// The text that `/` returns to a client that does not accept HTML, such as curl.
const HELP: &str = "\
tollgate, for operators. A browser shows a dashboard here.

GET /metrics       for Prometheus, by rule and port
GET /health        the process answers
GET /ready         the store can be written to as well, and nobody told the server to stop
GET /keys          the busiest and the most denied keys; ?top=20
GET /rules         the rules in force, and how their hits ended
GET /bans          the banned keys that this server knows; ?top=20
DELETE /bans/RULE/KEY   lifts a ban and forgets the counts of the key (scope operate)
    /api/v1/...    the API of the dashboard: overview, rules, keys, key, store, playground, stream, actions
";

/// The body of a response: complete, or events without end.
type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Facts about this server that the service does not know.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The URL of the store, without passwords.
    pub store: String,
    /// The name of this server in its fleet.
    pub node: Option<String>,
    /// When the server started, in seconds since the Unix epoch.
    pub started: u64,
}

/// The state that all connections of the port share.
#[derive(Debug)]
struct Admin {
    service: Arc<Service>,
    about: About,
    access: Access,
    events: Events,
    patience: Duration,
}

/// Answers on this port until it is time to stop.
pub async fn serve(port: Port, service: Arc<Service>, about: About, draining: Draining) {
    let clock = SystemClock::new();
    let talk = Arc::new(Talk::new(port.patience(), Arc::clone(&service), Protocol::Admin));
    let admin = Arc::new(Admin {
        access: Access::new(&port),
        events: Events::new(draining.clone()),
        patience: port.patience(),
        service,
        about,
    });
    let recording = tokio::spawn(api::record(Arc::clone(&admin)));
    port.serve(draining, move |stream, _peer, draining| {
        let (admin, talk) = (Arc::clone(&admin), Arc::clone(&talk));
        async move {
            let told = draining.clone();
            let answer = |request: Request<Incoming>| {
                let (admin, told) = (Arc::clone(&admin), told.clone());
                async move {
                    let begin = clock.now();
                    let answer = Arc::clone(&admin).answer(&told, request).await;
                    let stats = admin.service.observer().port(Protocol::Admin);
                    stats.spans.saw(clock.now().since(begin));
                    answer
                }
            };
            talk.on(stream, draining, answer).await;
        }
    })
    .await;
    recording.abort();
}

impl Admin {
    async fn answer(
        self: Arc<Self>,
        told: &Draining,
        request: Request<Incoming>,
    ) -> Response<Body> {
        if let Some(file) = page::file(&request) {
            return whole(file);
        }
        let path = request.uri().path();
        // Load balancers have no token, and a browser has none before the login.
        if is_health(path) || api::is_session(path) {
            return self.routed(None, told, request).await;
        }
        match self.access.caller(&request) {
            Ok(caller) => self.routed(Some(caller), told, request).await,
            Err(refused) => {
                self.service.observer().port(Protocol::Admin).refuse();
                whole(match refused {
                    Refused::Unauthorized => unauthorized(request.headers()),
                    Refused::Foreign(problem) => problem.response(),
                })
            }
        }
    }

    async fn routed(
        self: Arc<Self>,
        caller: Option<access::Caller>,
        told: &Draining,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let answer = if request.uri().path().starts_with("/api/") {
            api::answer(self, caller, request).await
        } else if api::bans::has(request.uri().path()) {
            api::bans::answer(&self, caller, &request).await
        } else {
            self.text(told, &request).await.map(whole)
        };
        answer.unwrap_or_else(|problem| whole(problem.response()))
    }

    /// Answers requests for paths that are not part of the API.
    async fn text(
        &self,
        draining: &Draining,
        request: &Request<Incoming>,
    ) -> Result<Response<Reply>, Problem> {
        let service = &self.service;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let detail = format!("method {}: expected GET", request.method());
            return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail));
        }
        match request.uri().path() {
            "/" => Ok(plain("text/plain; charset=utf-8", HELP.to_owned())),
            "/metrics" => {
                Ok(plain("text/plain; version=0.0.4; charset=utf-8", metrics::text(service)))
            }
            "/health" => Ok(of_json(StatusCode::OK, "{\"health\":\"alive\"}".to_owned())),
            "/ready" => Ok(ready::answer(service, draining).await),
            "/keys" => keys::answer(service, request.uri().query().unwrap_or("")),
            "/rules" => Ok(of_json(StatusCode::OK, rules::text(service))),
            path => Err(Problem::new(
                StatusCode::NOT_FOUND,
                format!(
                    "path {path:?}: unknown; known are /metrics, /health, /ready, /keys, /rules, /bans, /api/v1"
                ),
            )),
        }
    }
}

fn is_health(path: &str) -> bool {
    matches!(path, "/health" | "/ready")
}

fn whole(response: Response<Reply>) -> Response<Body> {
    response.map(BodyExt::boxed_unsync)
}

fn plain(kind: &'static str, body: String) -> Response<Reply> {
    let mut response = bytes(StatusCode::OK, body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
