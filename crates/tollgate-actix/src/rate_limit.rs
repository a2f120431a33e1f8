//! The middleware that is wrapped around an app.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpResponse};
use tollgate_http::{Decider, Gate};

use crate::body::Counted;
use crate::refusal::{Refusal, RefusalFn};
use crate::service::RateLimitService;

/// The middleware: for [`App::wrap`](actix_web::App::wrap), and for scopes and resources as well. A
/// handle: clones have the same rules and count together.
///
/// See [the crate](crate) for examples.
#[doc(alias = "throttle")]
#[doc(alias = "per ip")]
#[doc(alias = "proxy")]
#[doc(alias = "user")]
pub struct RateLimit<D: Decider> {
    pub(crate) gate: Gate<D>,
    pub(crate) refusal: Option<Arc<RefusalFn>>,
}

impl<D: Decider> Clone for RateLimit<D> {
    fn clone(&self) -> Self {
        RateLimit { gate: self.gate.clone(), refusal: self.refusal.clone() }
    }
}

impl<D: Decider> fmt::Debug for RateLimit<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl<D: Decider> RateLimit<D> {
    /// Applies one limiter to all requests, by the address of the peer.
    ///
    /// See the example of [the crate](crate).
    #[must_use]
    pub fn new(limiter: D) -> RateLimit<D> {
        RateLimit::from_gate(Gate::new(limiter))
    }

    /// A middleware with the settings of a gate.
    ///
    /// See the example of [the crate](crate).
    #[must_use]
    pub fn from_gate(gate: Gate<D>) -> RateLimit<D> {
        RateLimit { gate: gate.keep_decisions(), refusal: None }
    }

    /// Responses of your own to refused requests. The headers of the decision are added to them.
    ///
    /// ```
    /// use actix_web::HttpResponse;
    /// use tollgate::Memory;
    /// use tollgate_actix::RateLimit;
    ///
    /// let limiter = Memory::new().limiter("100/minute")?;
    /// let middleware = RateLimit::new(limiter)
    ///     .refusal(|refusal| HttpResponse::build(refusal.status).body("slow down"));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn refusal(
        mut self,
        refusal: impl Fn(&Refusal<'_>) -> HttpResponse + Send + Sync + 'static,
    ) -> RateLimit<D> {
        self.refusal = Some(Arc::new(refusal));
        self
    }
}

impl<D: Decider> From<Gate<D>> for RateLimit<D> {
    fn from(gate: Gate<D>) -> Self {
        RateLimit::from_gate(gate)
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
