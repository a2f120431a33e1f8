//! A decided request.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate::{Decision, Limit};

use crate::chooser::Chosen;
use crate::decider::Decider;
use crate::key_by::RequestKey;
use crate::settle::Settle;

/// A decided request: gives headers to the response and settles what it costs in the end.
pub struct Pass<D: Decider> {
    pub(crate) chosen: Arc<Chosen<D>>,
    pub(crate) key: RequestKey,
    pub(crate) cost: u64,
    pub(crate) outcomes: Decision,
}

impl<D: Decider> Clone for Pass<D> {
    fn clone(&self) -> Self {
        Pass {
            chosen: Arc::clone(&self.chosen),
            key: self.key.clone(),
            cost: self.cost,
            outcomes: self.outcomes.clone(),
        }
    }
}

impl<D: Decider> fmt::Debug for Pass<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({:?}, cost {})", self.key, self.cost)
    }
}

impl<D: Decider> Pass<D> {
    /// The limits that decided.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.chosen.limiter.limits()
    }

    /// What they said.
    #[must_use]
    pub fn outcomes(&self) -> &Decision {
        &self.outcomes
    }

    /// The limit that is shown: the one that binds.
    #[must_use]
    pub fn shown_limit(&self) -> Option<&Limit> {
        self.limits().get(self.outcomes.headline_index())
    }

    /// Brings what was charged to what the request costs in the end. Errors are reported: a
    /// response is not held back for them.
    ///
    /// A request that was let pass only because the gate is a shadow was charged nothing, and stays
    /// so.
    pub async fn settle(&self, settle: Settle) {
        let charged = self.cost;
        let cost = match settle {
            Settle::Nothing => 0,
            Settle::Cost(cost) => cost,
            Settle::AsCharged => return,
        };
        if !self.outcomes.allowed() {
            return;
        }
        let settled = if cost < charged {
            self.chosen.limiter.refund(&self.key, &self.outcomes, charged - cost).await
        } else if cost > charged {
            self.chosen.limiter.charge(&self.key, cost - charged).await
        } else {
            Ok(())
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "what a response changes in its cost could not be settled");
        }
    }

    /// Settles without a future where the limiter [answers at once](Decider::AT_ONCE); `false`
    /// where [`settle`](Pass::settle) is needed.
    #[must_use]
    pub fn settle_now(&self, settle: Settle) -> bool {
        settle == Settle::AsCharged || (D::AT_ONCE && at_once(self.settle(settle)).is_some())
    }
}

/// What a future says that is ready when it is first asked.
#[inline]
pub(crate) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
