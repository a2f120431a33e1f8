//! The service: decides on a request, then passes it on or refuses it.

use std::net::IpAddr;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::{Admission, AdmittedRequest, Decider, Deciding};
use tower_service::Service;

use crate::body::Body;
use crate::decided::Decided;
use crate::future::{ResponseFuture, State, Waiting};
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
        self.rules.call(&mut self.inner, peer, request)
    }
}

impl<D: Decider> RateLimitLayer<D> {
    /// Decides on a request, and calls the service if that takes no waiting.
    #[inline]
    pub(crate) fn call<S, B, R>(
        &self,
        inner: &mut S,
        peer: Option<IpAddr>,
        mut request: Request<B>,
    ) -> ResponseFuture<S, D, B, R>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        let head = if self.gate.reads_head() {
            head_of(peer, &request)
        } else {
            unrouted_head_of(peer, &request)
        };
        match self.gate.decide(&head, tokio::time::sleep) {
            Deciding::Ready(admission) => match self.admit(admission, &mut request) {
                Ok(admitted) => {
                    ResponseFuture::new(State::Inner { future: inner.call(request), admitted })
                }
                Err(response) => ResponseFuture::new(State::ready(response)),
            },
            Deciding::Pending(admission) => {
                // The service that is ready waits with the request; its clone is not ready yet.
                let clone = inner.clone();
                let inner = std::mem::replace(inner, clone);
                let waiting = Waiting { admission, rules: self.clone(), inner, request };
                ResponseFuture::new(State::Waiting { waiting: Some(Box::new(waiting)) })
            }
        }
    }

    /// Prepares a request that passes for its handler; for another one, the response.
    #[expect(clippy::result_large_err, reason = "moved once, into the future of the response")]
    #[inline]
    pub(crate) fn admit<B, R>(
        &self,
        admission: Admission<D>,
        request: &mut Request<B>,
    ) -> Result<AdmittedRequest<D>, Response<Body<R>>> {
        match admission {
            Admission::Admitted(admitted) => {
                if self.tells_handlers
                    && let Some(limited) = &admitted.request
                {
                    request.extensions_mut().insert(Decided::new(limited.decision().clone()));
                }
                Ok(admitted)
            }
            Admission::Refused(refused) => Err(self.refuse(request, &refused)),
        }
    }
}
