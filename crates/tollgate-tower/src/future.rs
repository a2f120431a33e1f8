//! The way of a request after it was looked at: decided on, handled, settled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_http::{Decider, Pass, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::headers::write_headers;
use crate::layer::RateLimitLayer;
use crate::service::enter;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit), to come.
    pub struct ResponseFuture<S, D, B, R>
    where
        S: Service<Request<B>>,
        D: Decider,
    {
        pub(crate) rules: RateLimitLayer<D>,
        #[pin]
        pub(crate) state: State<S, D, B, R>,
    }
}

pin_project! {
    #[project = Projected]
    pub(crate) enum State<S, D, B, R>
    where
        S: Service<Request<B>>,
        D: Decider,
    {
        /// Somebody has to be waited for; the request waits with the service that is ready for it.
        Deciding { verdict: Boxed<Verdict<D>>, waiting: Option<(S, Request<B>)> },
        /// With the handler.
        Inner { #[pin] future: S::Future, pass: Option<Pass<D>> },
        /// A shared store is told what the response has changed. Boxed, because that has no name.
        Settling { settled: Boxed<()>, response: Option<Response<Body<R>>> },
        /// Refused.
        Ready { response: Option<Response<Body<R>>> },
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
            State::Deciding { .. } => "ResponseFuture(deciding)",
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
                Projected::Deciding { verdict, waiting } => {
                    let verdict = ready!(verdict.as_mut().poll(cx));
                    let (mut inner, request) = waiting.take().expect(AGAIN);
                    enter(&mut inner, this.rules, verdict, request)
                }
                Projected::Inner { future, pass } => {
                    let response = ready!(future.poll(cx))?;
                    match pass.take() {
                        None => return Poll::Ready(Ok(response.map(Body::inner))),
                        Some(pass) => leave(this.rules, pass, response),
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

/// Gives a response its headers and settles what it cost, now or when its body has ended.
fn leave<S, D, B, R>(
    rules: &RateLimitLayer<D>,
    pass: Pass<D>,
    mut response: Response<R>,
) -> State<S, D, B, R>
where
    S: Service<Request<B>>,
    D: Decider,
{
    let Some(settles) = rules.gate.settles() else {
        write_headers(&rules.gate, &pass, response.headers_mut());
        return State::ready(response.map(Body::inner));
    };
    if settles.needs_body() {
        let (settles, status) = (settles.clone(), response.status().as_u16());
        // As the handler has set them, before ours are added.
        let headers = response.headers().clone();
        write_headers(&rules.gate, &pass, response.headers_mut());
        let settle = move |bytes| {
            let mut response = tollgate_http::Response::new(status, &headers);
            response.bytes = bytes;
            settle_apart(pass, settles.settle(&response));
        };
        return State::ready(response.map(|body| Body::counted(body, Box::new(settle))));
    }
    let head = tollgate_http::Response::new(response.status().as_u16(), response.headers());
    let settle = settles.settle(&head);
    write_headers(&rules.gate, &pass, response.headers_mut());
    let response = response.map(Body::inner);
    if pass.settle_now(settle) {
        return State::ready(response);
    }
    let settled = Box::pin(async move { pass.settle(settle).await });
    State::Settling { settled, response: Some(response) }
}

/// Settles with nobody left to wait for it.
fn settle_apart<D: Decider>(pass: Pass<D>, settle: tollgate_http::Settle) {
    if pass.settle_now(settle) {
        return;
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(async move { pass.settle(settle).await });
        }
        Err(_) => tracing::warn!(
            "a body was dropped outside of the runtime: its request stays charged as it was"
        ),
    }
}
