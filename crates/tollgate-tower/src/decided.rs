//! The decision on a request, for its handler.

use std::time::Duration;

use tollgate::Decision;

/// The decision on a request, as an extension of it: of layers that [tell
/// handlers](crate::RateLimitLayer::tell_handlers). Of several limits, the headline; of several
/// layers, the innermost.
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
    pub(crate) fn new(decision: Decision) -> Decided {
        Decided { decision }
    }

    /// Whether it was allowed. A request that reaches its handler was, unless the gate is a
    /// [shadow](crate::Gate::shadow).
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.decision.allowed()
    }

    /// The most units that a single moment admits.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.decision.limit()
    }

    /// Units left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.decision.remaining()
    }

    /// Time until the key is fresh, if no other request comes.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.decision.reset_after()
    }

    /// The whole decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}
