//! Replays vectors: against the pure functions, or against any store.

use std::fmt;
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Algorithm, Outcome, Receipt, Source, Timestamp};

use super::format::{Action, Block, Expected, Retry, show};

/// One key under one limit, as its users see it.
pub trait Answerer {
    /// One operation.
    fn apply(&mut self, now: Timestamp, op: Op) -> Outcome;

    /// Units in use, by the method for it.
    fn usage(&mut self, now: Timestamp) -> u64;

    /// Forgets the key; true if it was not fresh.
    fn reset(&mut self, now: Timestamp) -> bool;

    /// Up to this number `used` must be exact; beyond it, `used` must be at least this number.
    /// Stores that pack counts have a low one.
    fn counts_to(&self) -> u64 {
        u64::MAX
    }
}

/// A key that the pure functions decide on.
#[derive(Debug)]
pub struct Pure {
    machine: AnyMachine,
    state: Option<AnyState>,
}

impl Pure {
    /// A fresh key under this limit.
    #[must_use]
    pub fn new(limit: &tollgate::Limit) -> Pure {
        Pure { machine: AnyMachine::new(limit), state: None }
    }
}

impl Answerer for Pure {
    fn apply(&mut self, now: Timestamp, op: Op) -> Outcome {
        self.machine.apply(&mut self.state, now, op)
    }

    fn usage(&mut self, now: Timestamp) -> u64 {
        self.apply(now, Op::Peek(1)).used()
    }

    fn reset(&mut self, now: Timestamp) -> bool {
        let fresh_at = self.machine.fresh_at(self.state.take().as_ref());
        fresh_at.is_some_and(|at| at > now)
    }
}

/// An answer in the words of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    used: u64,
    left: u64,
    retry: Retry,
    reset: Duration,
    /// Whether the units may lag behind: a remembered denial of a moving window does not know which
    /// entries have left the log since.
    units_lag: bool,
}

impl Answer {
    fn of(decision: &Outcome, algorithm: Algorithm) -> Answer {
        Answer {
            units_lag: algorithm == Algorithm::MovingWindow
                && decision.source() == Source::DenialCache,
            allowed: decision.allowed(),
            used: decision.used(),
            left: decision.remaining(),
            retry: decision.into(),
            reset: decision.reset_after(),
        }
    }

    fn meets(&self, expected: &Expected, counts_to: u64) -> bool {
        let saturated = |used| used > counts_to && self.used >= counts_to;
        let lags = |used| self.units_lag && self.used >= used;
        let is_used = |used| used == self.used || saturated(used) || lags(used);
        self.allowed == expected.allowed
            && expected.used.is_none_or(is_used)
            && expected.left.is_none_or(|left| left == self.left || self.units_lag)
            && expected.retry.is_none_or(|retry| retry == self.retry)
            && expected.reset.is_none_or(|reset| reset == self.reset)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { allowed, used, left, retry, reset, .. } = self;
        let verdict = if *allowed { "allow" } else { "deny" };
        write!(f, "{verdict} used {used} left {left} retry {retry} reset {}", show(*reset))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.allowed { "allow" } else { "deny" })?;
        let Expected { used, left, retry, reset, .. } = *self;
        let fields = [
            ("used", used.map(|used| used.to_string())),
            ("left", left.map(|left| left.to_string())),
            ("retry", retry.map(|retry| retry.to_string())),
            ("reset", reset.map(show)),
        ];
        for (name, value) in fields {
            value.map_or(Ok(()), |value| write!(f, " {name} {value}"))?;
        }
        Ok(())
    }
}

/// Replays a block on a fresh key.
///
/// # Errors
/// The first step with another answer: its place, the operation, the expected and the actual
/// answer. Later steps depend on it and are not checked.
pub fn replay(block: &Block, subject: &mut dyn Answerer) -> Result<(), String> {
    let mut receipts: Vec<Receipt> = Vec::new();
    for step in &block.steps {
        let (now, place, action) = (step.now, &step.place, step.action);
        let op = match action {
            Action::Hit(cost) => Op::Hit(cost),
            Action::Peek(cost) => Op::Peek(cost),
            Action::Take(cost) => Op::Take(cost),
            Action::Charge(units) => Op::Charge(units),
            Action::Set(units) => Op::Set(units),
            Action::Refund(units) => Op::RefundUnits(units),
            Action::RefundOf(index) => Op::Refund(receipts[index]),
            // A cost of zero: the fields as they are, without a wait.
            Action::Usage | Action::Reset => Op::Peek(0),
        };
        if action == Action::Reset {
            let peeked = subject.apply(now, Op::Peek(0));
            // A budget in use never becomes fresh by itself.
            let fresh = peeked.expires_at().is_none() && peeked.used() == 0;
            if subject.reset(now) == fresh {
                return Err(format!("{place}: reset must be true for a key that is not fresh"));
            }
        }
        let decision = subject.apply(now, op);
        let mut answer = Answer::of(&decision, block.limit.algorithm());
        if matches!(action, Action::Usage | Action::Reset) {
            let used = subject.usage(now);
            answer = Answer { allowed: true, used, retry: Retry::After(Duration::ZERO), ..answer };
        }
        if !answer.meets(&step.expected, subject.counts_to()) {
            let expected = step.expected;
            let limit = &block.limit;
            return Err(format!(
                "{place}: {action:?} under {limit}: expected {expected}, found {answer}"
            ));
        }
        receipts.push(decision.receipt());
    }
    Ok(())
}
