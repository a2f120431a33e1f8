//! What is wrapped around an app.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpRequest, HttpResponse};
use tollgate_http::{Decider, Gate};

use crate::body::Counted;
use crate::refusal::{Refusal, plain};
use crate::service::RateLimitService;

pub(crate) type Refuse<D> =
    dyn Fn(&HttpRequest, Refusal<'_, D>) -> Option<HttpResponse> + Send + Sync;

/// The middleware: for [`App::wrap`](actix_web::App::wrap), and for scopes and resources as well. A handle: clones have the same rules and count together.
///
/// See [the crate](crate) for examples.
pub struct RateLimit<D: Decider> {
    pub(crate) gate: Gate<D>,
    refuse: Option<Arc<Refuse<D>>>,
}

impl<D: Decider> Clone for RateLimit<D> {
    fn clone(&self) -> Self {
        RateLimit { gate: self.gate.clone(), refuse: self.refuse.clone() }
    }
}

impl<D: Decider> fmt::Debug for RateLimit<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl<D: Decider> RateLimit<D> {
    /// One limiter for all requests, by the address of the peer.
    ///
    /// See the example of [the crate](crate).
    #[must_use]
    pub fn new(limiter: D) -> RateLimit<D> {
        RateLimit::gate(Gate::new(limiter))
    }

    /// By the rules of this gate.
    ///
    /// See the example of [the crate](crate).
    #[must_use]
    pub fn gate(gate: Gate<D>) -> RateLimit<D> {
        RateLimit { gate, refuse: None }
    }

    /// Answers refused requests in your way. Headers that tell of limits are added to what you return; `None` leaves the answer as it would be.
    ///
    /// ```
    /// use actix_web::HttpResponse;
    /// use tollgate::Memory;
    /// use tollgate_actix::{RateLimit, Refusal};
    ///
    /// let limiter = Memory::new().limiter("100/minute")?;
    /// let middleware = RateLimit::new(limiter).refuse_with(|_request, refusal| match refusal {
    ///     Refusal::Limited(_) => Some(HttpResponse::TooManyRequests().body("<h1>Slow down</h1>")),
    ///     _ => None,
    /// });
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn refuse_with(
        mut self,
        refuse: impl Fn(&HttpRequest, Refusal<'_, D>) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> RateLimit<D> {
        self.refuse = Some(Arc::new(refuse));
        self
    }

    pub(crate) fn refusal(&self, request: &HttpRequest, refusal: Refusal<'_, D>) -> HttpResponse {
        let own = self.refuse.as_ref().and_then(|refuse| refuse(request, refusal));
        own.unwrap_or_else(|| plain(&self.gate, refusal))
    }
}

impl<D: Decider> From<Gate<D>> for RateLimit<D> {
    fn from(gate: Gate<D>) -> Self {
        RateLimit::gate(gate)
    }
}

impl<S, B, D> Transform<S, ServiceRequest> for RateLimit<D>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
    D: Decider,
{
    type Response = ServiceResponse<EitherBody<Counted<B>, BoxBody>>;
    type Error = Error;
    type Transform = RateLimitService<S, D>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, Self::InitError>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(RateLimitService { service: Rc::new(service), limit: self.clone() }))
    }
}
