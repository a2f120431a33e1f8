//! The service: a request is looked at, decided on at once where that can be, and passed on or refused.

use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::{Decider, Question, Reason, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::decided::Decided;
use crate::future::{After, Deciding, ResponseFuture, State};
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
        let state = match question {
            Question::Ask { key, cost, choice } => match gate.decide_now(key, cost, choice) {
                Ok(ref verdict) => enter(&mut self.inner, &self.rules, verdict, request),
                Err((key, cost, choice)) => {
                    let gate = gate.clone();
                    // Boxed: a future of the store's, the plan's or the wait's own, which has no name.
                    let verdict = Box::pin(async move {
                        gate.decide(key, cost, choice, tokio::time::sleep).await
                    });
                    // The one that is ready goes with the request; its clone has yet to become so.
                    let clone = self.inner.clone();
                    let inner = std::mem::replace(&mut self.inner, clone);
                    let rules = self.rules.clone();
                    let deciding = Deciding { verdict, rules, inner, request };
                    State::Deciding { deciding: Some(Box::new(deciding)) }
                }
            },
            Question::Skip => {
                State::Inner { future: self.inner.call(request), after: After::NOTHING }
            }
            Question::NoKey(status) => {
                State::ready(self.rules.refuse(&mut request, status, &Reason::NoKey))
            }
        };
        ResponseFuture { state }
    }
}

/// Lets a request pass, or refuses it.
#[inline]
pub(crate) fn enter<S, D, B, R>(
    inner: &mut S,
    rules: &RateLimitLayer<D>,
    verdict: &Verdict<D>,
    mut request: Request<B>,
) -> State<S, D, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    D: Decider,
{
    match verdict {
        Verdict::Pass(pass) => {
            if rules.tells_handlers {
                request.extensions_mut().insert(Decided::of(pass));
            }
            let after = After::of(&rules.gate, pass);
            State::Inner { future: inner.call(request), after }
        }
        Verdict::Unlimited => State::Inner { future: inner.call(request), after: After::NOTHING },
        Verdict::Refuse(pass) => State::ready(rules.refuse_denied(&mut request, pass)),
        Verdict::Failed(error) => {
            State::ready(rules.refuse(&mut request, 503, &Reason::StoreFailed(error)))
        }
    }
}
