//! Before the routes: admission, traces and statistics of a request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tollgate::{Clock as _, SystemClock};

use super::browser::Browsers;
use super::problem::Problem;
use super::reply::Reply;
use super::route;
use crate::auth::ClientGate;
use crate::net::Port;
use crate::observe::Protocol;
use crate::service::Service;
use crate::telemetry::{Span, Tracer};

/// The state that all connections of the port share.
#[derive(Debug)]
pub(super) struct Front {
    service: Arc<Service>,
    gate: Arc<ClientGate>,
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

    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Reply> {
        // The span is boxed because a connection keeps memory for the whole future, and most
        // requests have no trace.
        let mut span = self.tracer.as_ref().map(|tracer| Box::new(trace(tracer, &request)));
        let response = match self.refuse(&request) {
            Some(refused) => {
                self.service.observer().port(Protocol::Http).refuse();
                refused
            }
            None => self.route(request).await,
        };
        if let Some(span) = &mut span {
            note_status(span, response.status());
        }
        response
    }

    /// The response to a request whose client is not admitted.
    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<Reply>> {
        if self.gate.is_open() {
            return self.browsers.refuse(request).map(|problem| problem.response());
        }
        let admitted = self.gate.admits_headers(request.headers());
        (!admitted).then(|| unauthorized(request.headers()))
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Reply> {
        let stats = self.service.observer().port(Protocol::Http);
        let begin = self.clock.now();
        let response = route::answer(&self.service, self.patience, request).await;
        stats.spans.saw(self.clock.now().since(begin));
        if response.status() == StatusCode::BAD_REQUEST {
            stats.wrong();
        }
        response
    }
}

fn trace(tracer: &Tracer, request: &Request<Incoming>) -> Span {
    let mut span = tracer.request(route::name(request.uri().path()), request.headers());
    span.note("http.request.method", request.method().to_string());
    span
}

/// The response to a client without a valid token.
pub(crate) fn unauthorized(headers: &HeaderMap) -> Response<Reply> {
    let text = "a token is needed: Authorization: Bearer TOKEN";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, text).response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, ClientGate::challenge(headers));
    response
}

fn note_status(span: &mut Span, status: StatusCode) {
    span.note("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.failed(status.canonical_reason().unwrap_or("error"));
    }
}
