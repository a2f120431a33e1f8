//! The layer: a gate around services.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tollgate_http::{Decider, Gate};
use tower_layer::Layer;

use crate::refusal::{Refusal, RefusalFn};
use crate::service::RateLimit;

/// Limits the requests of a service. All services of one layer share everything.
///
/// ```
/// use tollgate::Memory;
/// use tollgate_tower::RateLimitLayer;
///
/// let limiter = Memory::new().limiter("100/minute")?;
/// let layer = RateLimitLayer::new(limiter);
/// # Ok::<(), tollgate::Error>(())
/// ```
///
/// Its type has one parameter, the kind of limiter, so it can be written down:
///
/// ```
/// use tollgate::{Limiter, Memory};
/// use tollgate_tower::RateLimitLayer;
///
/// fn layer() -> Result<RateLimitLayer<Limiter<Memory>>, tollgate::Error> {
///     Ok(RateLimitLayer::new(Memory::new().limiter("100/minute")?))
/// }
/// # layer()?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[doc(alias = "throttle")]
#[doc(alias = "per ip")]
#[doc(alias = "proxy")]
#[doc(alias = "user")]
pub struct RateLimitLayer<D: Decider> {
    pub(crate) gate: Gate<D>,
    pub(crate) refusal: Option<Arc<RefusalFn>>,
    pub(crate) always_grpc: bool,
    pub(crate) tells_handlers: bool,
}

impl<D: Decider> RateLimitLayer<D> {
    /// Applies one limiter to all requests, by the address of the peer.
    ///
    /// See the example of [`RateLimitLayer`].
    #[must_use]
    pub fn new(limiter: D) -> RateLimitLayer<D> {
        RateLimitLayer::from_gate(Gate::new(limiter))
    }

    /// A layer with the settings of a gate.
    ///
    /// ```
    /// use tollgate::Memory;
    /// use tollgate_tower::{ClientIp, Gate, KeyBy, RateLimitLayer};
    ///
    /// let behind_proxy = KeyBy::client_ip(ClientIp::behind_hops(1));
    /// let gate = Gate::new(Memory::new().limiter("100/minute")?).key(behind_proxy);
    /// let layer = RateLimitLayer::from_gate(gate);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn from_gate(gate: Gate<D>) -> RateLimitLayer<D> {
        RateLimitLayer { gate, refusal: None, always_grpc: false, tells_handlers: false }
    }

    /// Responses of your own to refused requests, also to those of gRPC. The headers of the
    /// decision are added to them.
    ///
    /// ```
    /// use tollgate::Memory;
    /// use tollgate_tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new(Memory::new().limiter("100/minute")?)
    ///     .refusal(|refusal| http::Response::builder().status(refusal.status).body("slow down").unwrap());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn refusal<T: Into<Bytes>>(
        mut self,
        refusal: impl Fn(&Refusal<'_>) -> http::Response<T> + Send + Sync + 'static,
    ) -> Self {
        self.refusal = Some(Arc::new(move |why| refusal(why).map(Into::into)));
        self
    }

    /// Makes all refusals gRPC responses. Without this, only requests with the `content-type` of
    /// gRPC get gRPC responses.
    ///
    /// ```
    /// # use tollgate::Memory;
    /// # use tollgate_tower::RateLimitLayer;
    /// let layer = RateLimitLayer::new(Memory::new().limiter("100/minute")?).grpc();
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn grpc(mut self) -> Self {
        self.always_grpc = true;
        self
    }

    /// Handlers find the decision as an extension of the request: [`Decided`](crate::Decided). Not
    /// the default, because an extension costs as much as the decision itself.
    ///
    /// ```
    /// use axum::routing::get;
    /// use axum::{Extension, Router};
    /// use tollgate::Memory;
    /// use tollgate_tower::{Decided, RateLimitLayer};
    ///
    /// let left = |Extension(decided): Extension<Decided>| async move { decided.remaining().to_string() };
    /// let layer = RateLimitLayer::new(Memory::new().limiter("100/minute")?).tell_handlers();
    /// let app: Router = Router::new().route("/left", get(left)).layer(layer);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn tell_handlers(mut self) -> Self {
        self.gate = self.gate.keep_decisions();
        self.tells_handlers = true;
        self
    }
}

impl<D: Decider> Clone for RateLimitLayer<D> {
    fn clone(&self) -> Self {
        RateLimitLayer {
            gate: self.gate.clone(),
            refusal: self.refusal.clone(),
            always_grpc: self.always_grpc,
            tells_handlers: self.tells_handlers,
        }
    }
}

impl<D: Decider> fmt::Debug for RateLimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl<S, D: Decider> Layer<S> for RateLimitLayer<D> {
    type Service = RateLimit<S, D>;

    fn layer(&self, inner: S) -> RateLimit<S, D> {
        RateLimit { inner, rules: self.clone() }
    }
}
