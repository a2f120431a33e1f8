//! The service: a request is looked at, decided on at once where that can be, and passed on or
//! refused.

use std::net::IpAddr;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::{AtOnce, Choice, Decider, Question, Reason, RequestKey, Verdict};
use tower_service::Service;

use crate::body::Body;
use crate::decided::Decided;
use crate::future::{After, Deciding, ResponseFuture, State};
use crate::layer::RateLimitLayer;
use crate::peer::{head_of, peer_of, unrouted_head_of};

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
        let peer = peer_of(&mut request);
        match self.rules.look(peer, &request) {
            AtOnce::Passes(told) => {
                let (future, after) = (self.inner.call(request), After::telling(told));
                ResponseFuture { state: State::Inner { future, after } }
            }
            looked => self.go_on(looked, request),
        }
    }
}

/// What becomes of a request at the door.
pub(crate) enum Entry<D: Decider, R> {
    Passes(After<D>),
    Refused(Response<Body<R>>),
}

/// What is asked where somebody has to be waited for.
type Waits<D> = (RequestKey, u64, Choice<D>);

impl<D: Decider> RateLimitLayer<D> {
    /// Looks at a request, and decides where that can be at once: not for handlers that are told
    /// all of a decision, of which little is left then.
    #[inline]
    pub(crate) fn look<B>(&self, peer: Option<IpAddr>, request: &Request<B>) -> AtOnce<D> {
        if self.tells_handlers {
            AtOnce::Not(self.gate.question(&head_of(peer, request)))
        } else if self.gate.reads_head() {
            self.gate.at_once(&head_of(peer, request))
        } else {
            self.gate.at_once(&unrouted_head_of(peer, request))
        }
    }

    /// What all requests of a peer ask, where it is [decided at once](RateLimitLayer::look).
    #[cfg(feature = "axum")]
    pub(crate) fn foresee(&self, peer: IpAddr) -> Option<tollgate_http::Foreseen<D>> {
        if self.tells_handlers { None } else { self.gate.foresee(peer) }
    }

    /// What becomes of a request that was looked at.
    #[inline]
    fn entry<B, R>(
        &self,
        looked: AtOnce<D>,
        request: &mut Request<B>,
    ) -> Result<Entry<D, R>, Waits<D>> {
        Ok(match looked {
            AtOnce::Passes(told) => Entry::Passes(After::telling(told)),
            AtOnce::Decided(verdict) => enter(self, &verdict, request),
            AtOnce::Not(Question::Ask { key, cost, choice }) => {
                let verdict = self.gate.decide_now(key, cost, choice)?;
                enter(self, &verdict, request)
            }
            AtOnce::Not(Question::Skip) => Entry::Passes(After::telling(None)),
            AtOnce::Not(Question::NoKey(status)) => {
                Entry::Refused(self.refuse(request, status, &Reason::NoKey))
            }
        })
    }
}

impl<S, D: Decider> RateLimit<S, D> {
    /// The way of a request that does not just pass.
    #[inline(never)]
    pub(crate) fn go_on<B, R>(
        &mut self,
        looked: AtOnce<D>,
        mut request: Request<B>,
    ) -> ResponseFuture<S, D, B, R>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        match self.rules.entry(looked, &mut request) {
            Ok(Entry::Passes(after)) => {
                ResponseFuture { state: State::Inner { future: self.inner.call(request), after } }
            }
            Ok(Entry::Refused(response)) => ResponseFuture { state: State::ready(response) },
            Err(waits) => self.wait(waits, request),
        }
    }

    fn wait<B, R>(
        &mut self,
        (key, cost, choice): Waits<D>,
        request: Request<B>,
    ) -> ResponseFuture<S, D, B, R>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        let gate = self.rules.gate.clone();
        // Boxed: a future of the store's, the plan's or the wait's own, which has no name.
        let verdict =
            Box::pin(async move { gate.decide(key, cost, choice, tokio::time::sleep).await });
        // The one that is ready goes with the request; its clone has yet to become so.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let rules = self.rules.clone();
        let deciding = Box::new(Deciding { verdict, rules, inner, request });
        ResponseFuture { state: State::Deciding { deciding: Some(deciding) } }
    }
}

/// Lets a request pass, or refuses it.
#[inline]
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
        Verdict::Unlimited => Entry::Passes(After::telling(None)),
        Verdict::Refuse(pass) => Entry::Refused(rules.refuse_denied(request, pass)),
        Verdict::Failed(error) => {
            Entry::Refused(rules.refuse(request, 503, &Reason::StoreFailed(error)))
        }
    }
}
