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
        let entry = match question {
            Question::Ask { key, cost, choice } => match gate.decide_now(key, cost, choice) {
                Ok(ref verdict) => enter(&self.rules, verdict, &mut request),
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
                    let deciding = Box::new(Deciding { verdict, rules, inner, request });
                    return ResponseFuture { state: State::Deciding { deciding: Some(deciding) } };
                }
            },
            Question::Skip => Entry::Passes(After::NOTHING),
            Question::NoKey(status) => {
                Entry::Refused(self.rules.refuse(&mut request, status, &Reason::NoKey))
            }
        };
        match entry {
            Entry::Passes(after) => {
                ResponseFuture { state: State::Inner { future: self.inner.call(request), after } }
            }
            Entry::Refused(response) => ResponseFuture { state: State::ready(response) },
        }
    }
}

/// What becomes of a request at the door.
pub(crate) enum Entry<D: Decider, R> {
    Passes(After<D>),
    Refused(Response<Body<R>>),
}

/// Lets a request pass, or refuses it.
pub(crate) fn enter<D: Decider, B, R>(
    rules: &RateLimitLayer<D>,
    verdict: &Verdict<D>,
    request: &mut Request<B>,
) -> Entry<D, R> {
    match verdict {
        Verdict::Pass(pass) => {
            if rules.tells_handlers {
                request.extensions_mut().insert(Decided::of(pass));
            }
            Entry::Passes(After::of(&rules.gate, pass))
        }
        Verdict::Unlimited => Entry::Passes(After::NOTHING),
        Verdict::Refuse(pass) => Entry::Refused(rules.refuse_denied(request, pass)),
        Verdict::Failed(error) => {
            Entry::Refused(rules.refuse(request, 503, &Reason::StoreFailed(error)))
        }
    }
}
