//! The path of a request after the call: its decision, its handler, its settlement.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_http::{Admission, AdmittedRequest, Decider, LimitedRequest, Settle};
use tower_service::Service;

use crate::body::{Body, SettleFn};
use crate::headers::write_headers;
use crate::layer::RateLimitLayer;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pin_project! {
    /// The future response of a [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<S, D, B, R>
    where
        S: Service<Request<B>>,
        D: Decider,
    {
        #[pin]
        state: State<S, D, B, R>,
    }
}

pin_project! {
    #[project = Projected]
    pub(crate) enum State<S, D, B, R>
    where
        S: Service<Request<B>>,
        D: Decider,
    {
        /// Waits for the decision. Boxed, because most requests do not wait.
        Waiting { waiting: Option<Box<Waiting<S, D, B>>> },
        /// The handler runs.
        Inner { #[pin] future: S::Future, admitted: AdmittedRequest<D> },
        /// Waits until a shared store has settled the cost.
        Settling { settled: Boxed<()>, response: Option<Response<Body<R>>> },
        /// Refused.
        Ready { response: Option<Response<Body<R>>> },
    }
}

/// A request that waits for its decision, with the service that is ready for it.
pub(crate) struct Waiting<S, D: Decider, B> {
    pub(crate) admission: Boxed<Admission<D>>,
    pub(crate) rules: RateLimitLayer<D>,
    pub(crate) inner: S,
    pub(crate) request: Request<B>,
}

impl<S: Service<Request<B>>, D: Decider, B, R> ResponseFuture<S, D, B, R> {
    pub(crate) fn new(state: State<S, D, B, R>) -> Self {
        ResponseFuture { state }
    }
}

impl<S: Service<Request<B>>, D: Decider, B, R> State<S, D, B, R> {
    pub(crate) fn ready(response: Response<Body<R>>) -> Self {
        State::Ready { response: Some(response) }
    }
}

impl<S: Service<Request<B>>, D: Decider, B, R> fmt::Debug for ResponseFuture<S, D, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Waiting { .. } => "ResponseFuture(waiting)",
            State::Inner { .. } => "ResponseFuture(handled)",
            State::Settling { .. } => "ResponseFuture(settling)",
            State::Ready { .. } => "ResponseFuture(refused)",
        })
    }
}

impl<S, D, B, R> Future for ResponseFuture<S, D, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    D: Decider,
{
    type Output = Result<Response<Body<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const AGAIN: &str = "a future was polled after it had ended";
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                Projected::Waiting { waiting } => {
                    let pending = waiting.as_mut().expect(AGAIN);
                    let admission = ready!(pending.admission.as_mut().poll(cx));
                    let Waiting { rules, mut inner, mut request, .. } =
                        *waiting.take().expect(AGAIN);
                    match rules.admit(admission, &mut request) {
                        Ok(admitted) => State::Inner { future: inner.call(request), admitted },
                        Err(response) => return Poll::Ready(Ok(response)),
                    }
                }
                Projected::Inner { future, admitted } => {
                    let mut response = ready!(future.poll(cx))?;
                    let settled = match admitted.request.take() {
                        Some(limited) => settle(limited, &response),
                        None => Settled::Now,
                    };
                    if let Some(figures) = &admitted.headers {
                        write_headers(figures, response.headers_mut());
                    }
                    match settled {
                        Settled::Now => return Poll::Ready(Ok(response.map(Body::inner))),
                        Settled::AtEnd(settle) => {
                            let response = response.map(|body| Body::counted(body, settle));
                            return Poll::Ready(Ok(response));
                        }
                        Settled::Later(settled) => {
                            let response = Some(response.map(Body::inner));
                            State::Settling { settled, response }
                        }
                    }
                }
                Projected::Settling { settled, response } => {
                    ready!(settled.as_mut().poll(cx));
                    return Poll::Ready(Ok(response.take().expect(AGAIN)));
                }
                Projected::Ready { response } => {
                    return Poll::Ready(Ok(response.take().expect(AGAIN)));
                }
            };
            this.state.set(next);
        }
    }
}

/// When the cost of a request is settled.
enum Settled {
    Now,
    /// When the body has ended.
    AtEnd(SettleFn),
    /// When the store has answered.
    Later(Boxed<()>),
}

/// Settles the cost by the response as the handler made it, before our headers are added.
#[inline(never)]
fn settle<D: Decider, R>(request: Box<LimitedRequest<D>>, response: &Response<R>) -> Settled {
    let Some(settle_by) = request.settle_by() else { return Settled::Now };
    let status = response.status().as_u16();
    if settle_by.needs_body() {
        let (settle_by, headers) = (settle_by.clone(), response.headers().clone());
        return Settled::AtEnd(Box::new(move |bytes| {
            let mut response = tollgate_http::Response::new(status, &headers);
            response.bytes = bytes;
            settle_in_background(request, settle_by.settle(&response));
        }));
    }
    let settle = settle_by.settle(&tollgate_http::Response::new(status, response.headers()));
    if request.settle_now(settle) {
        return Settled::Now;
    }
    Settled::Later(Box::pin(async move { request.settle(settle).await }))
}

/// Settles where no response waits for it any more.
fn settle_in_background<D: Decider>(request: Box<LimitedRequest<D>>, settle: Settle) {
    if request.settle_now(settle) {
        return;
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(async move { request.settle(settle).await });
        }
        Err(_) => tracing::warn!(
            "a body was dropped outside of the runtime: its request stays charged as it was"
        ),
    }
}
