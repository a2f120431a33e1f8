//! The answer of a [`Gate`](crate::Gate) to a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::decider::Decider;
use crate::header_figures::HeaderFigures;
use crate::limited_request::LimitedRequest;
use crate::refused_request::RefusedRequest;

/// An [`Admission`] that is known, or a future of it where a store, a plan, a caller or the turn
/// of the request has to be waited for.
pub enum Deciding<D: Decider> {
    /// The decision is there without waiting.
    Ready(Admission<D>),
    /// Boxed: the future of a store, of a plan or of a wait.
    Pending(Pin<Box<dyn Future<Output = Admission<D>> + Send>>),
}

impl<D: Decider> fmt::Debug for Deciding<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deciding::Ready(admission) => write!(f, "Ready({admission:?})"),
            Deciding::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl<D: Decider> Deciding<D> {
    /// Waits for the admission if it is not known yet.
    pub async fn admission(self) -> Admission<D> {
        match self {
            Deciding::Ready(admission) => admission,
            Deciding::Pending(admission) => admission.await,
        }
    }
}

/// Whether a request may pass.
pub enum Admission<D: Decider> {
    /// It may. Small, because it is moved with each request.
    Admitted(AdmittedRequest<D>),
    /// It may not.
    Refused(Box<RefusedRequest<D>>),
}

impl<D: Decider> fmt::Debug for Admission<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Admission::Admitted(_) => f.write_str("Admitted"),
            Admission::Refused(refused) => refused.fmt(f),
        }
    }
}

/// A request that passes: the headers of its response, and its decision where something after the
/// decision needs it.
pub struct AdmittedRequest<D: Decider> {
    /// The headers of the response; `None` for a response without any.
    pub headers: Option<HeaderFigures>,
    /// The decision, of gates that [settle](crate::Gate::settle) or [keep
    /// decisions](crate::Gate::keep_decisions); `None` for a request that is not limited.
    pub request: Option<Box<LimitedRequest<D>>>,
}

impl<D: Decider> AdmittedRequest<D> {
    /// A request that is not limited.
    pub(crate) const UNLIMITED: AdmittedRequest<D> =
        AdmittedRequest { headers: None, request: None };
}

impl<D: Decider> fmt::Debug for AdmittedRequest<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmittedRequest").field("request", &self.request).finish_non_exhaustive()
    }
}
