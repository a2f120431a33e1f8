//! The service: a request is looked at, decided on at once where that can be, and passed on or refused.

use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::{Decider, Question, Reason, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::decided::Decided;
use crate::future::{ResponseFuture, State};
use crate::layer::RateLimitLayer;
use crate::peer::head_of;

/// A service whose requests are limited. Made by a [`RateLimitLayer`]; clones share everything.
#[derive(Clone, Debug)]
pub struct RateLimit<S, D: Decider> {
    pub(crate) inner: S,
    pub(crate) rules: RateLimitLayer<D>,
}

impl<S, D, B, R> Service<Request<B>> for RateLimit<S, D>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    D: Decider,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, D, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let gate = &self.rules.gate;
        let question = head_of(&mut request, |head| gate.question(head));
        let (key, cost, choice) = match question {
            Question::Ask { key, cost, choice } => (key, cost, choice),
            Question::Skip => {
                let state = State::Inner { future: self.inner.call(request), pass: None };
                return ResponseFuture { rules: self.rules.clone(), state };
            }
            Question::NoKey(status) => {
                let refused = self.rules.refuse(&mut request, status, &Reason::NoKey);
                return ResponseFuture { rules: self.rules.clone(), state: State::ready(refused) };
            }
        };
        let state = match gate.decide_now(key, cost, choice) {
            Ok(verdict) => enter(&mut self.inner, &self.rules, verdict, request),
            Err((key, cost, choice)) => {
                let gate = gate.clone();
                // Boxed: a future of the store's, the plan's or the wait's own, which has no name.
                let verdict =
                    Box::pin(
                        async move { gate.decide(key, cost, choice, tokio::time::sleep).await },
                    );
                // The one that is ready goes with the request; its clone has yet to become so.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                State::Deciding { verdict, waiting: Some((inner, request)) }
            }
        };
        ResponseFuture { rules: self.rules.clone(), state }
    }
}

/// Lets a request pass, or refuses it.
pub(crate) fn enter<S, D, B, R>(
    inner: &mut S,
    rules: &RateLimitLayer<D>,
    verdict: Verdict<D>,
    mut request: Request<B>,
) -> State<S, D, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    D: Decider,
{
    match verdict {
        Verdict::Pass(pass) => {
            request.extensions_mut().insert(Decided::of(&pass));
            State::Inner { future: inner.call(request), pass: Some(pass) }
        }
        Verdict::Unlimited => State::Inner { future: inner.call(request), pass: None },
        Verdict::Refuse(pass) => State::ready(rules.refuse_denied(&mut request, &pass)),
        Verdict::Failed(error) => {
            State::ready(rules.refuse(&mut request, 503, &Reason::StoreFailed(&error)))
        }
    }
}
