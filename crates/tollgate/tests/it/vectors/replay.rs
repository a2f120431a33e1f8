//! Replays vectors: against the pure functions, or against any store.

use std::fmt;
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op, State};
use tollgate::{Decision, Limiter, Receipt, Store, Timestamp};

use super::format::{Action, Block, Expected, Retry, show};

/// One key under one limit, seen from outside.
pub(crate) trait Subject {
    fn apply(&mut self, now: Timestamp, op: Op) -> Decision;

    /// Units in use, by the call for it.
    fn usage(&mut self, now: Timestamp) -> u64;

    /// Forgets the key; true if it was not fresh.
    fn reset(&mut self, now: Timestamp) -> bool;

    /// Up to here `used` must be exact; beyond, at least this. For stores that pack counts.
    fn counts_to(&self) -> u64 {
        u64::MAX
    }
}

/// A key of the pure functions.
#[derive(Debug)]
pub(crate) struct Pure {
    machine: AnyMachine,
    state: Option<State>,
}

impl Pure {
    pub(crate) fn new(limit: &tollgate::Limit) -> Pure {
        Pure { machine: AnyMachine::new(limit), state: None }
    }
}

impl Subject for Pure {
    fn apply(&mut self, now: Timestamp, op: Op) -> Decision {
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

/// A key of a store.
#[derive(Debug)]
pub(crate) struct Kept<S: Store> {
    pub(crate) limiter: Limiter<S>,
    pub(crate) key: String,
    /// See [`Subject::counts_to`].
    pub(crate) counts_to: u64,
}

impl<S: Store> Subject for Kept<S> {
    fn apply(&mut self, now: Timestamp, op: Op) -> Decision {
        let (at, key) = (self.limiter.at(now), self.key.as_str());
        match op {
            Op::Hit(1) => at.hit(key),
            Op::Hit(cost) => at.hit_n(key, cost),
            Op::Peek(1) => at.peek(key),
            Op::Peek(cost) => at.peek_n(key, cost),
            Op::Take(cost) => at.take(key, cost),
            Op::Charge(units) => at.charge(key, units),
            Op::Refund(receipt) => at.refund(key, &receipt),
            Op::RefundUnits(units) => at.refund_n(key, units),
            Op::Set(units) => at.set(key, units),
            other => unreachable!("no vector asks for {other:?}"),
        }
    }

    fn usage(&mut self, now: Timestamp) -> u64 {
        self.limiter.at(now).usage(self.key.as_str())
    }

    fn reset(&mut self, now: Timestamp) -> bool {
        self.limiter.at(now).reset(self.key.as_str())
    }

    fn counts_to(&self) -> u64 {
        self.counts_to
    }
}

/// What was answered, in the words of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    used: u64,
    left: u64,
    retry: Retry,
    reset: Duration,
}

impl Answer {
    fn of(decision: &Decision) -> Answer {
        Answer {
            allowed: decision.allowed(),
            used: decision.used(),
            left: decision.remaining(),
            retry: decision.retry_after().into(),
            reset: decision.reset_after(),
        }
    }

    fn meets(&self, expected: &Expected, counts_to: u64) -> bool {
        let saturated = |used| used > counts_to && self.used >= counts_to;
        self.allowed == expected.allowed
            && expected.used.is_none_or(|used| used == self.used || saturated(used))
            && expected.left.is_none_or(|left| left == self.left)
            && expected.retry.is_none_or(|retry| retry == self.retry)
            && expected.reset.is_none_or(|reset| reset == self.reset)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { allowed, used, left, retry, reset } = self;
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
/// The first step that was answered otherwise: its place, what was asked, expected and found. Later steps stand on it and say no more.
pub(crate) fn replay(block: &Block, subject: &mut dyn Subject) -> Result<(), String> {
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
            // A cost of nothing: the fields as they are, and no wait.
            Action::Usage | Action::Reset => Op::Peek(0),
        };
        if action == Action::Reset {
            let fresh = subject.apply(now, Op::Peek(0)).expires_at().is_none();
            if subject.reset(now) == fresh {
                return Err(format!("{place}: reset must be true for a key that is not fresh"));
            }
        }
        let decision = subject.apply(now, op);
        let mut answer = Answer::of(&decision);
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
