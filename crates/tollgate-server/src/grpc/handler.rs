//! Admits and routes calls.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use tokio::time::timeout;
use tollgate::{Clock, SystemClock};
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;

use super::call::{self, Body};
use super::health::Health;
use super::options::Options;
use super::proto::RateLimitResponse;
use super::{DESCRIPTORS, SHOULD_RATE_LIMIT, rls};
use crate::auth::ClientGate;
use crate::net::{Draining, Port};
use crate::observe::Protocol;
use crate::service::Service;
use crate::telemetry::{Seldom, Span, Tracer};

/// The beginning of all paths of the health service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Answers the calls of all connections.
#[derive(Debug)]
pub(super) struct Handler {
    service: Arc<Service>,
    options: Options,
    clock: SystemClock,
    gate: Arc<ClientGate>,
    tracer: Option<Tracer>,
    /// Health and reflection, which are rare, served by tonic.
    others: Routes,
}

impl Handler {
    pub(super) fn new(
        port: &Port,
        service: Arc<Service>,
        options: Options,
        draining: Draining,
    ) -> Handler {
        let most = options.max_message;
        let health = HealthServer::new(Health(draining)).max_decoding_message_size(most);
        let mut others = Routes::new(health);
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // The compiled-in descriptors are valid: a test lists them by both versions.
        if let (Ok(v1), Ok(v1alpha)) = (reflection().build_v1(), reflection().build_v1alpha()) {
            others = others
                .add_service(v1.max_decoding_message_size(most))
                .add_service(v1alpha.max_decoding_message_size(most));
        }
        let (gate, tracer) = (port.gate(), port.tracer());
        Handler { service, options, gate, tracer, clock: SystemClock::new(), others }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// The response to any request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        // The span is boxed because most calls have no trace.
        let mut span = self.tracer.as_ref().map(|tracer| Box::new(trace(tracer, &request)));
        // Health needs no token, because probes have none.
        let is_health = request.uri().path().starts_with(HEALTH);
        let response = if is_health || self.gate.admits_headers(request.headers()) {
            self.route(request).await
        } else {
            self.service.observer().port(Protocol::Grpc).refuse();
            let text = "a token is needed: authorization: Bearer TOKEN";
            Status::unauthenticated(text).into_http()
        };
        let status = response.headers().get("grpc-status").map(HeaderValue::to_str);
        if let (Some(span), Some(Ok(status))) = (&mut span, status) {
            span.note("rpc.grpc.status_code", status.to_owned());
        }
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() != SHOULD_RATE_LIMIT || request.method() != Method::POST {
            // The error type of the service is infallible.
            let Ok(response) = self.others.clone().call(request).await;
            return response.map(Body::Tonic);
        }
        if !is_grpc(request.headers()) {
            let mut response = Response::new(Body::End);
            *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        let stats = self.service.observer().port(Protocol::Grpc);
        let begin = self.clock.now();
        let answer = self.should_rate_limit(request).await;
        stats.spans.saw(self.clock.now().since(begin));
        if let Err(status) = &answer {
            self.count_rejected(status);
        }
        call::response(answer)
    }

    /// Counts and logs a request that is not valid. A proxy may let it pass, so operators have to
    /// see it. A store that does not answer is counted elsewhere.
    fn count_rejected(&self, status: &Status) {
        static SELDOM: Seldom = Seldom::new();
        if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled) {
            return;
        }
        self.service.observer().port(Protocol::Grpc).wrong();
        if let Some(suppressed) = SELDOM.may() {
            let (code, reason) = (status.code(), status.message());
            tracing::warn!(port = "grpc", ?code, reason, suppressed, "a request was rejected");
        }
    }

    async fn should_rate_limit(
        &self,
        request: Request<Incoming>,
    ) -> Result<RateLimitResponse, Status> {
        let (head, body) = request.into_parts();
        let patience = self.options.patience;
        let message = call::message(body, self.options.max_message);
        let request = timeout(patience, message).await.unwrap_or_else(|_| {
            let text = format!("message: not whole after {patience:?}, and no longer waited for");
            Err(Status::deadline_exceeded(text))
        })?;
        let answer = rls::answer(&self.service, &self.options, &head.headers, request);
        let Some(waits) = call::waits(&head.headers) else { return answer.await };
        timeout(waits, answer).await.unwrap_or_else(|_| {
            let text = format!("the caller waits {waits:?}, and the store takes longer");
            Err(Status::deadline_exceeded(text))
        })
    }
}

fn trace(tracer: &Tracer, request: &Request<Incoming>) -> Span {
    let name = match request.uri().path() {
        SHOULD_RATE_LIMIT => "ShouldRateLimit",
        path if path.starts_with(HEALTH) => "Health",
        _ => "other",
    };
    tracer.request(name, request.headers())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
    kind.starts_with(b"application/grpc")
}
