//! Why a request is refused, for whoever puts that into words.

use tollgate::{Error, Limit, Outcome};

use crate::decider::Decider;
use crate::pass::Pass;

/// Why a request is refused.
///
/// ```
/// use tollgate_http::Reason;
/// assert_eq!(Reason::NoKey.text(), "this request does not say who sends it\n");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// It is too much.
    #[non_exhaustive]
    Denied {
        /// What the limit said, the one with the longest wait if there are several.
        decision: &'a Outcome,
        /// Which one.
        limit: Option<&'a Limit>,
    },
    /// It does not say who sends it.
    NoKey,
    /// The store did not answer.
    StoreFailed(&'a Error),
}

impl<'a> Reason<'a> {
    /// Too much for what was decided.
    #[must_use]
    pub fn denied<D: Decider>(pass: &'a Pass<D>) -> Reason<'a> {
        Reason::Denied { decision: pass.outcomes().headline(), limit: pass.shown_limit() }
    }

    /// A line for the client. What went wrong with a store is in the log: it is not the client's
    /// business.
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
