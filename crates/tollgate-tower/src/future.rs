//! The way of a request after it was looked at: decided on, handled, settled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tollgate_http::{Decider, Gate, Pass, SettleBy, Told, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::headers::write_headers;
use crate::layer::RateLimitLayer;
use crate::service::{Entry, enter};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit), to come.
    pub struct ResponseFuture<S, D, B, R>
    where
        S: Service<Request<B>>,
        D: Decider,
    {
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
        /// Somebody has to be waited for. Boxed, so that requests that wait for nobody have little
        /// to carry.
        Deciding { deciding: Option<Box<Deciding<S, D, B>>> },
        /// With the handler.
        Inner { #[pin] future: S::Future, after: After<D> },
        /// A shared store is told what the response has changed. Boxed, because that has no name.
        Settling { settled: Boxed<()>, response: Option<Response<Body<R>>> },
        /// Refused.
        Ready { response: Option<Response<Body<R>>> },
    }
}

/// A request that waits with the service that is ready for it.
pub(crate) struct Deciding<S, D: Decider, B> {
    pub(crate) verdict: Boxed<Verdict<D>>,
    pub(crate) rules: RateLimitLayer<D>,
    pub(crate) inner: S,
    pub(crate) request: Request<B>,
}

/// What is left to do when the response is there: as little as the gate asks for.
pub(crate) struct After<D: Decider> {
    pub(crate) told: Option<Told>,
    pub(crate) settles: Option<Box<(SettleBy, Pass<D>)>>,
}

impl<D: Decider> After<D> {
    /// Nothing but this, if anything.
    pub(crate) fn telling(told: Option<Told>) -> Self {
        After { told, settles: None }
    }

    pub(crate) fn of(gate: &Gate<D>, pass: &Pass<D>) -> Self {
        let settles = gate.settles().map(|settles| Box::new((settles.clone(), pass.clone())));
        After { told: gate.told(pass), settles }
    }

    fn tell(&self, headers: &mut HeaderMap) {
        if let Some(told) = &self.told {
            write_headers(told, headers);
        }
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
                Projected::Deciding { deciding } => {
                    let waiting = deciding.as_mut().expect(AGAIN);
                    let verdict = ready!(waiting.verdict.as_mut().poll(cx));
                    let Deciding { rules, mut inner, mut request, .. } =
                        *deciding.take().expect(AGAIN);
                    match enter(&rules, &verdict, &mut request) {
                        Entry::Passes(after) => State::Inner { future: inner.call(request), after },
                        Entry::Refused(response) => return Poll::Ready(Ok(response)),
                    }
                }
                Projected::Inner { future, after } => {
                    let mut response = ready!(future.poll(cx))?;
                    let Some(settles) = after.settles.take() else {
                        after.tell(response.headers_mut());
                        return Poll::Ready(Ok(response.map(Body::inner)));
                    };
                    match settle(after, *settles, response) {
                        (response, None) => return Poll::Ready(Ok(response)),
                        (response, Some(settled)) => {
                            State::Settling { settled, response: Some(response) }
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

/// Gives a response its headers and settles what it cost, now or when its body has ended. Where a
/// store has to be waited for, that too.
#[inline(never)]
fn settle<D: Decider, R>(
    after: &After<D>,
    (settles, pass): (SettleBy, Pass<D>),
    mut response: Response<R>,
) -> (Response<Body<R>>, Option<Boxed<()>>) {
    if settles.needs_body() {
        let status = response.status().as_u16();
        // As the handler has set them, before ours are added.
        let headers = response.headers().clone();
        after.tell(response.headers_mut());
        let settle = move |bytes| {
            let mut response = tollgate_http::Response::new(status, &headers);
            response.bytes = bytes;
            settle_apart(pass, settles.settle(&response));
        };
        return (response.map(|body| Body::counted(body, Box::new(settle))), None);
    }
    let head = tollgate_http::Response::new(response.status().as_u16(), response.headers());
    let settle = settles.settle(&head);
    after.tell(response.headers_mut());
    let response = response.map(Body::inner);
    if pass.settle_now(settle) {
        return (response, None);
    }
    let settled: Boxed<()> = Box::pin(async move { pass.settle(settle).await });
    (response, Some(settled))
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
