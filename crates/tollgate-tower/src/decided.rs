//! What a handler can know of the decision on its request.

use std::time::Duration;

use tollgate::Decision;
use tollgate_http::{Decider, Pass};

/// What was decided on a request: an extension of it, of layers that [tell
/// handlers](crate::RateLimitLayer::tell_handlers). With several limits, the one that binds; with
/// several layers, the innermost.
///
/// ```
/// use axum::Extension;
/// use tollgate_tower::Decided;
///
/// async fn handler(Extension(decided): Extension<Decided>) -> String {
///     format!("{} of {} left", decided.remaining(), decided.limit())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Decided {
    decision: Decision,
}

impl Decided {
    pub(crate) fn of<D: Decider>(pass: &Pass<D>) -> Decided {
        Decided { decision: pass.outcomes().clone() }
    }

    /// Whether it was allowed. A request that reaches its handler was, unless the gate is a
    /// [shadow](crate::Gate::shadow).
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.decision.allowed()
    }

    /// The most that passes at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.decision.limit()
    }

    /// Units left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.decision.remaining()
    }

    /// When the key is as good as new, if nothing else comes.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.decision.reset_after()
    }

    /// All that is known.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}
