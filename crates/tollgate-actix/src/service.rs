//! The way of a request through the middleware.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use actix_web::body::{BodySize, BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, forward_ready};
use actix_web::http::header::HeaderMap;
use actix_web::http::{Method, StatusCode};
use actix_web::rt::time::sleep;
use actix_web::{Error, HttpMessage, HttpResponse, ResponseError};
use tollgate_http::{Decider, Gate, Head, Pass, Question, Reason, Response, SettleBy, Verdict};

use crate::body::Counted;
use crate::fields::{Fields, tell};
use crate::rate_limit::RateLimit;

type Body<B> = EitherBody<Counted<B>, BoxBody>;

/// A service behind a [`RateLimit`].
pub struct RateLimitService<S, D: Decider> {
    pub(crate) service: Rc<S>,
    pub(crate) limit: RateLimit<D>,
}

impl<S, D: Decider> fmt::Debug for RateLimitService<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitService").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<S, B, D> Service<ServiceRequest> for RateLimitService<S, D>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
    D: Decider,
{
    type Response = ServiceResponse<Body<B>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(service);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let (service, limit) = (Rc::clone(&self.service), self.limit.clone());
        Box::pin(async move {
            let gate = &limit.gate;
            let (key, cost, choice) = match question(gate, &request) {
                Question::Ask { key, cost, choice } => (key, cost, choice),
                Question::Skip => return unlimited(&*service, request).await,
                Question::NoKey(status) => {
                    let response = limit.refuse(request.request(), status, &Reason::NoKey);
                    return Ok(refused(request, response));
                }
            };
            match gate.decide(key, cost, choice, sleep).await {
                Verdict::Unlimited => unlimited(&*service, request).await,
                Verdict::Pass(pass) => passed(&*service, request, gate, pass).await,
                Verdict::Refuse(pass) => {
                    let response = limit.refuse_denied(request.request(), &pass);
                    Ok(refused(request, response))
                }
                Verdict::Failed(error) => {
                    let reason = Reason::StoreFailed(&error);
                    let response = limit.refuse(request.request(), 503, &reason);
                    Ok(refused(request, response))
                }
            }
        })
    }
}

fn question<D: Decider>(gate: &Gate<D>, request: &ServiceRequest) -> Question<D> {
    let fields = Fields(request.headers());
    let peer = request.peer_addr().map(|address| address.ip());
    // The path as routes see it: `/%6cogin` is `/login` to them, and must not have another limit.
    let path = request.match_info().as_str();
    let nested_path = request.match_info().unprocessed();
    // Looking the route up takes time: only where it may count.
    let route = if gate.reads_head() { request.match_pattern() } else { None };
    let head = Head::new(request.method().as_str(), path, &fields).peer(peer);
    gate.question(&head.nested_path(nested_path).route(route.as_deref()))
}

fn refused<B>(request: ServiceRequest, response: HttpResponse) -> ServiceResponse<Body<B>> {
    request.into_response(response.map_into_right_body())
}

async fn unlimited<S, B>(
    service: &S,
    request: ServiceRequest,
) -> Result<ServiceResponse<Body<B>>, Error>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
{
    let response = service.call(request).await?;
    Ok(response.map_body(|_, body| EitherBody::left(Counted::uncounted(body))))
}

async fn passed<S, B, D>(
    service: &S,
    request: ServiceRequest,
    gate: &Gate<D>,
    pass: Pass<D>,
) -> Result<ServiceResponse<Body<B>>, Error>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
    D: Decider,
{
    // For a limiter of one limit the two are one.
    request.extensions_mut().insert(pass.outcomes().clone());
    // The body of an answer to HEAD is made, and not sent.
    let sends_body = request.method() != Method::HEAD;
    let mut response = match service.call(request).await {
        Ok(response) => response,
        Err(error) => return Err(failed(error, gate, &pass, sends_body).await),
    };
    let status = response.status().as_u16();
    let by_body = match gate.settles() {
        Some(settle_by) if settle_by.needs_body() => {
            Some((settle_by.clone(), response.headers().clone()))
        }
        Some(settle_by) => {
            let fields = Fields(response.headers());
            pass.settle(settle_by.settle(&Response::new(status, &fields))).await;
            None
        }
        None => None,
    };
    tell(gate, &pass, response.headers_mut());
    Ok(response.map_body(|_, body| {
        EitherBody::left(match by_body {
            None => Counted::uncounted(body),
            Some((settle_by, headers)) => Counted::new(body, move |bytes| {
                let bytes = if sends_body { bytes } else { 0 };
                settle_at_end(pass, &settle_by, status, &headers, bytes);
            }),
        })
    }))
}

/// The end of a body is told from where nothing can be awaited. A store in process is done at once;
/// for one that waits the rest becomes a task.
fn settle_at_end<D: Decider>(
    pass: Pass<D>,
    settle_by: &SettleBy,
    status: u16,
    headers: &HeaderMap,
    bytes: u64,
) {
    let fields = Fields(headers);
    let mut response = Response::new(status, &fields);
    response.bytes = bytes;
    let settle = settle_by.settle(&response);
    // Without a runtime this worker is at its end, and so is what it could still ask.
    if !pass.settle_now(settle)
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(async move { pass.settle(settle).await });
    }
}

/// A response that is an error still: of an extractor or of another middleware. It is settled and
/// tells of limits as any other.
async fn failed<D: Decider>(
    error: Error,
    gate: &Gate<D>,
    pass: &Pass<D>,
    sends_body: bool,
) -> Error {
    let response = error.as_response_error().error_response();
    if let Some(settle_by) = gate.settles() {
        let fields = Fields(response.headers());
        let mut seen = Response::new(response.status().as_u16(), &fields);
        if let (true, BodySize::Sized(bytes)) = (sends_body, response.body().size()) {
            seen.bytes = bytes;
        }
        pass.settle(settle_by.settle(&seen)).await;
    }
    let mut told = HeaderMap::new();
    tell(gate, pass, &mut told);
    FailedWith { error, told }.into()
}

/// An error whose response tells of limits.
struct FailedWith {
    error: Error,
    told: HeaderMap,
}

impl fmt::Debug for FailedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for FailedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl ResponseError for FailedWith {
    fn status_code(&self) -> StatusCode {
        self.error.as_response_error().status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = self.error.as_response_error().error_response();
        for (name, value) in &self.told {
            response.headers_mut().append(name.clone(), value.clone());
        }
        response
    }
}
