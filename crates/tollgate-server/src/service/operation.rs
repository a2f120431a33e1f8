//! The operations that clients may request.

use tollgate::shared::{AnyStore, SharedLimiter};
use tollgate::{Decision, Error, Key, Outcome, Source};

/// An operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Decide and charge.
    Hit(u64),
    /// Ask whether a hit would pass. Nothing is charged.
    Peek(u64),
    /// Charge as much as fits. Works on a single limit.
    Take(u64),
    /// Charge whatever is left.
    Charge(u64),
    /// Give units back without a receipt, as a correction.
    Refund(u64),
    /// Set the units in use.
    Set(u64),
    /// Read the units in use, from the store alone.
    Usage,
}

impl Operation {
    /// Whether it is counted as a hit.
    pub(super) fn is_hit(self) -> bool {
        matches!(self, Operation::Hit(_) | Operation::Take(_))
    }

    /// The operation where a cost of 1 is `price` units.
    pub(super) fn priced(self, price: u64) -> Operation {
        let priced = |units: u64| units.saturating_mul(price);
        match self {
            Operation::Hit(cost) => Operation::Hit(priced(cost)),
            Operation::Peek(cost) => Operation::Peek(priced(cost)),
            Operation::Take(cost) => Operation::Take(priced(cost)),
            Operation::Charge(units) => Operation::Charge(priced(units)),
            Operation::Refund(units) => Operation::Refund(priced(units)),
            Operation::Set(_) | Operation::Usage => self,
        }
    }

    /// Runs it on a limiter.
    ///
    /// # Errors
    /// When the store does not decide and the limiter has no rule for that.
    pub(crate) async fn run<K: Key>(
        self,
        limiter: &SharedLimiter<AnyStore>,
        key: K,
    ) -> Result<Decision, Error> {
        match self {
            Operation::Hit(cost) => limiter.hit_n(key, cost).await,
            Operation::Peek(cost) => limiter.peek_n(key, cost).await,
            Operation::Take(_) if limiter.limits().len() > 1 => Err(Error::request(format!(
                "take: works on one limit, and here are {}",
                limiter.limits().len()
            ))),
            Operation::Take(cost) => limiter.take(key, cost).await,
            Operation::Charge(units) => limiter.charge(key, units).await,
            Operation::Refund(units) => limiter.refund_n(key, units).await,
            Operation::Set(units) => limiter.set(key, units).await,
            Operation::Usage => limiter.peek(key).await.and_then(from_store),
        }
    }
}

/// Rejects a decision that the store did not make: only the store knows the units in use.
fn from_store(decision: Decision) -> Result<Decision, Error> {
    let is_made_up = |outcome: &Outcome| {
        matches!(outcome.source(), Source::FailOpen | Source::FailClosed | Source::Fallback)
    };
    if decision.outcomes().iter().any(is_made_up) {
        return Err(Error::unavailable("nobody else knows how much is in use"));
    }
    Ok(decision)
}
