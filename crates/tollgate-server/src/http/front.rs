//! Before the routes: who may ask, and the trace of it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tollgate::{Clock as _, SystemClock};

use super::browser::Browsers;
use super::problem::Problem;
use super::reply::Reply;
use super::route;
use crate::auth::Gate;
use crate::net::Port;
use crate::observe::Protocol;
use crate::service::Service;
use crate::telemetry::{Span, Tracer};

/// What all connections of the port share.
#[derive(Debug)]
pub(super) struct Front {
    service: Arc<Service>,
    gate: Arc<Gate>,
    browsers: Browsers,
    tracer: Option<Tracer>,
    clock: SystemClock,
    patience: Duration,
}

impl Front {
    pub(super) fn new(port: &Port, service: Arc<Service>) -> Front {
        let (gate, browsers) = (port.gate(), Browsers::new(port));
        let (tracer, patience) = (port.tracer(), port.patience());
        Front { service, gate, browsers, tracer, clock: SystemClock::new(), patience }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        match &self.tracer {
            None => self.guarded(request).await,
            // Boxed: a connection keeps room for one answer, and most have no trace.
            Some(tracer) => Box::pin(self.traced(tracer, request)).await,
        }
    }

    async fn traced(&self, tracer: &Tracer, request: Request<Incoming>) -> Response<Reply> {
        let mut span = tracer.request(route::name(request.uri().path()), request.headers());
        span.note("http.request.method", request.method().to_string());
        let response = self.guarded(request).await;
        tell(&mut span, response.status());
        response
    }

    async fn guarded(&self, request: Request<Incoming>) -> Response<Reply> {
        let stats = self.service.observer().port(Protocol::Http);
        if !self.gate.admits_headers(request.headers()) {
            stats.refuse();
            return unauthorized(request.headers());
        }
        if self.gate.is_open()
            && let Some(problem) = self.browsers.refuse(&request)
        {
            stats.refuse();
            return problem.response();
        }
        let begin = self.clock.now();
        let response = route::answer(&self.service, self.patience, request).await;
        stats.spans.saw(self.clock.now().since(begin));
        if response.status() == StatusCode::BAD_REQUEST {
            stats.wrong();
        }
        response
    }
}

/// For who shows no token, or a wrong one.
pub(crate) fn unauthorized(headers: &HeaderMap) -> Response<Reply> {
    let text = "a token is needed: Authorization: Bearer TOKEN";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, text).response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, Gate::challenge(headers));
    response
}

fn tell(span: &mut Span, status: StatusCode) {
    span.note("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.failed(status.canonical_reason().unwrap_or("error"));
    }
}
