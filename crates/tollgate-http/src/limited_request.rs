//! A request that a limiter decided on.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tollgate::{Decision, Limit};

use crate::chooser::RouteLimiter;
use crate::decider::Decider;
use crate::key_by::RequestKey;
use crate::settle::{Settle, SettleBy};

/// A request that a limiter decided on, with all that is needed to settle its cost.
pub struct LimitedRequest<D: Decider> {
    pub(crate) limiter: Arc<RouteLimiter<D>>,
    pub(crate) key: RequestKey,
    pub(crate) cost: u64,
    pub(crate) decision: Decision,
    pub(crate) settle_by: Option<SettleBy>,
}

impl<D: Decider> fmt::Debug for LimitedRequest<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitedRequest({:?}, cost {})", self.key, self.cost)
    }
}

impl<D: Decider> LimitedRequest<D> {
    /// The limits that decided.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.limiter.limiter.limits()
    }

    /// The decision.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The limit of the headline.
    #[must_use]
    pub fn headline_limit(&self) -> Option<&Limit> {
        self.limits().get(self.decision.headline_index())
    }

    /// How the response changes the cost, if it does.
    #[must_use]
    pub fn settle_by(&self) -> Option<&SettleBy> {
        self.settle_by.as_ref()
    }

    /// Refunds or charges the difference between the cost so far and the final one. Errors are
    /// logged: a response does not wait for them.
    ///
    /// A request that passed only because the gate is a shadow was charged nothing, and stays so.
    pub async fn settle(&self, settle: Settle) {
        let charged = self.cost;
        let cost = match settle {
            Settle::Nothing => 0,
            Settle::Cost(cost) => cost,
            Settle::AsCharged => return,
        };
        if !self.decision.allowed() {
            return;
        }
        let limiter = &self.limiter.limiter;
        let settled = if cost < charged {
            limiter.refund(&self.key, &self.decision, charged - cost).await
        } else if cost > charged {
            limiter.charge(&self.key, cost - charged).await
        } else {
            Ok(())
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "could not settle the cost of a request after its response");
        }
    }

    /// Settles without a future where the limiter [never waits](Decider::NEVER_WAITS); `false`
    /// where [`settle`](LimitedRequest::settle) is needed.
    #[must_use]
    pub fn settle_now(&self, settle: Settle) -> bool {
        let poll_once = || {
            let settled = pin!(self.settle(settle));
            settled.poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        settle == Settle::AsCharged || (D::NEVER_WAITS && poll_once())
    }
}
