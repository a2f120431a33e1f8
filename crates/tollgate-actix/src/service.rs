//! The path of a request through the middleware.

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
use tollgate_http::{
    Admission, AdmittedRequest, Decider, Deciding, Gate, Head, HeaderFigures, LimitedRequest,
    Response, SettleBy,
};

use crate::body::Counted;
use crate::fields::{Fields, write_headers};
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
            match decide(&limit.gate, &request).admission().await {
                Admission::Admitted(admitted) => handle(&*service, request, admitted).await,
                Admission::Refused(refused) => {
                    let response = limit.refuse(request.request(), &refused);
                    Ok(request.into_response(response.map_into_right_body()))
                }
            }
        })
    }
}

fn decide<D: Decider>(gate: &Gate<D>, request: &ServiceRequest) -> Deciding<D> {
    let fields = Fields(request.headers());
    let peer = request.peer_addr().map(|address| address.ip());
    // The path as routes see it: `/%6cogin` is `/login` to them, and must not have another limit.
    let path = request.match_info().as_str();
    let nested_path = request.match_info().unprocessed();
    // Looking up the route takes time, so it is done only if the gate reads it.
    let route = if gate.reads_head() { request.match_pattern() } else { None };
    let head = Head::new(request.method().as_str(), path, &fields).peer(peer);
    gate.decide(&head.nested_path(nested_path).route(route.as_deref()), sleep)
}

async fn handle<S, B, D>(
    service: &S,
    request: ServiceRequest,
    admitted: AdmittedRequest<D>,
) -> Result<ServiceResponse<Body<B>>, Error>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
    D: Decider,
{
    let AdmittedRequest { headers: figures, request: limited } = admitted;
    if let Some(limited) = &limited {
        request.extensions_mut().insert(limited.decision().clone());
    }
    // The body of a response to HEAD is made and not sent.
    let sends_body = request.method() != Method::HEAD;
    let mut response = match service.call(request).await {
        Ok(response) => response,
        Err(error) => return Err(failed(error, figures, limited, sends_body).await),
    };
    let status = response.status().as_u16();
    let mut at_end = None;
    if let Some(limited) = limited
        && let Some(settle_by) = limited.settle_by().cloned()
    {
        if settle_by.needs_body() {
            at_end = Some((limited, settle_by, response.headers().clone()));
        } else {
            let fields = Fields(response.headers());
            limited.settle(settle_by.settle(&Response::new(status, &fields))).await;
        }
    }
    if let Some(figures) = &figures {
        write_headers(figures, response.headers_mut());
    }
    Ok(response.map_body(|_, body| {
        EitherBody::left(match at_end {
            None => Counted::uncounted(body),
            Some((limited, settle_by, headers)) => Counted::new(body, move |bytes| {
                let bytes = if sends_body { bytes } else { 0 };
                settle_at_end(limited, &settle_by, status, &headers, bytes);
            }),
        })
    }))
}

/// A body ends where nothing can be awaited. A store in this process settles immediately; for one
/// that waits a task is spawned.
fn settle_at_end<D: Decider>(
    limited: Box<LimitedRequest<D>>,
    settle_by: &SettleBy,
    status: u16,
    headers: &HeaderMap,
    bytes: u64,
) {
    let fields = Fields(headers);
    let mut response = Response::new(status, &fields);
    response.bytes = bytes;
    let settle = settle_by.settle(&response);
    // Without a runtime the worker is stopping, and the request stays charged.
    if !limited.settle_now(settle)
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(async move { limited.settle(settle).await });
    }
}

/// An error of an extractor or of another middleware, which becomes a response later. It is settled
/// and gets the headers of the decision like a response.
async fn failed<D: Decider>(
    error: Error,
    figures: Option<HeaderFigures>,
    limited: Option<Box<LimitedRequest<D>>>,
    sends_body: bool,
) -> Error {
    let Some(limited) = limited else { return error };
    if let Some(settle_by) = limited.settle_by() {
        let response = error.as_response_error().error_response();
        let fields = Fields(response.headers());
        let mut seen = Response::new(response.status().as_u16(), &fields);
        if let (true, BodySize::Sized(bytes)) = (sends_body, response.body().size()) {
            seen.bytes = bytes;
        }
        limited.settle(settle_by.settle(&seen)).await;
    }
    let mut headers = HeaderMap::new();
    if let Some(figures) = &figures {
        write_headers(figures, &mut headers);
    }
    FailedWith { error, headers }.into()
}

/// An error whose response gets the headers of the decision.
struct FailedWith {
    error: Error,
    headers: HeaderMap,
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
        for (name, value) in &self.headers {
            response.headers_mut().append(name.clone(), value.clone());
        }
        response
    }
}
