//! A request that is refused, and the reason.

use std::fmt;

use tollgate::{Error, Limit, Outcome};

use crate::decider::Decider;
use crate::header_figures::HeaderFigures;
use crate::limited_request::LimitedRequest;
use crate::problem::{PROBLEM_JSON, problem};
use crate::too_many_requests::text;

/// A request that does not pass: status, headers and body of the response.
pub struct RefusedRequest<D: Decider> {
    pub(crate) status: u16,
    pub(crate) cause: Cause<D>,
}

#[expect(clippy::large_enum_variant, reason = "boxed as a whole")]
pub(crate) enum Cause<D: Decider> {
    Denied { request: LimitedRequest<D>, headers: Option<HeaderFigures>, problem: bool },
    NoKey,
    StoreFailed(Error),
}

impl<D: Decider> fmt::Debug for RefusedRequest<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Denied { request, .. } => write!(f, "Denied({request:?})"),
            Cause::NoKey => write!(f, "NoKey({})", self.status),
            Cause::StoreFailed(error) => write!(f, "StoreFailed({error})"),
        }
    }
}

impl<D: Decider> RefusedRequest<D> {
    /// The status of the response: that of the [gate](crate::Gate::status) if a limit denied the
    /// request, that of [`OnMissing`](crate::OnMissing) if it has no key, 503 if the store did not
    /// decide.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Why it is refused.
    #[must_use]
    pub fn reason(&self) -> Reason<'_> {
        match &self.cause {
            Cause::Denied { request, .. } => Reason::Denied {
                decision: request.decision.headline(),
                limit: request.headline_limit(),
            },
            Cause::NoKey => Reason::NoKey,
            Cause::StoreFailed(error) => Reason::StoreFailed(error),
        }
    }

    /// The headers of the response that describe the limit, if there are any.
    #[must_use]
    pub fn headers(&self) -> Option<&HeaderFigures> {
        match &self.cause {
            Cause::Denied { headers, .. } => headers.as_ref(),
            Cause::NoKey | Cause::StoreFailed(_) => None,
        }
    }

    /// The media type and the body of the response.
    #[must_use]
    pub fn body(&self) -> (&'static str, String) {
        const PLAIN: &str = "text/plain; charset=utf-8";
        match &self.cause {
            Cause::Denied { request, problem: true, .. } => {
                let outcomes = request.decision.outcomes();
                (PROBLEM_JSON, problem(self.status, request.limits(), outcomes))
            }
            Cause::Denied { request, .. } => (PLAIN, text(&request.decision)),
            Cause::NoKey | Cause::StoreFailed(_) => (PLAIN, self.reason().text().to_owned()),
        }
    }
}

/// Why a request is refused.
///
/// ```
/// use tollgate_http::Reason;
/// assert_eq!(Reason::NoKey.text(), "this request does not say who sends it\n");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// It costs more than the limit has left.
    #[non_exhaustive]
    Denied {
        /// The outcome of the limit; of several, the one with the longest wait.
        decision: &'a Outcome,
        /// The limit.
        limit: Option<&'a Limit>,
    },
    /// It has no key.
    NoKey,
    /// The store did not decide.
    StoreFailed(&'a Error),
}

impl Reason<'_> {
    /// A line for the client. The error of a store is in the log only: it may contain addresses.
    ///
    /// See the example of [`Reason`].
    #[must_use]
    pub fn text(&self) -> &'static str {
        match self {
            Reason::Denied { .. } => "too many requests\n",
            Reason::NoKey => "this request does not say who sends it\n",
            Reason::StoreFailed(_) => "the rate limiter does not answer\n",
        }
    }
}
