//! The algorithms: pure functions of (limit, state, now), one file each.
//!
//! Each file first tells the story of its algorithm, then gives the few primitives of `Machine`.
//! `step` builds every operation from them, once for all. Nothing here reads a clock, allocates
//! (but for the moving window's log) or can fail.
//!
//! A state is an `Option`: `None` is fresh, and a state that has run out at `now` acts as `None` in
//! every primitive.

pub mod elastic_window;
pub mod fixed_window;
pub mod fixed_window_per_key;
pub mod gcra;
pub mod leaky_bucket;
pub mod level;
pub mod moving_window;
pub mod sliding_window;
pub mod token_bucket;

mod any;
mod bytes;
mod fields;
mod group;
mod remote;
mod words;

pub(crate) use any::View;
pub(crate) use any::with_machine;
pub use any::{AnyMachine, AnyState};
pub use fields::Fields;
pub use group::hit_together;
pub use remote::RemoteStep;
pub(crate) use words::{Words, words};

use crate::outcome::{Outcome, Receipt, Source};
use crate::time::Timestamp;

/// Counts saturate here: a thousand times the largest quota.
pub const MAX_UNITS: u64 = 1_000 * crate::limit::MAX_QUOTA;

/// An operation on a key. Each store does all of them.
///
/// ```
/// use tollgate::algorithm::Op;
/// assert_ne!(Op::Hit(1), Op::Peek(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Decide on a cost and charge it if it passes.
    Hit(u64),
    /// Decide on a hit of that cost, and change nothing.
    Peek(u64),
    /// Charge as much of that many units as fits, from none to all.
    Take(u64),
    /// Charge without asking.
    Charge(u64),
    /// Give back what a decision charged.
    Refund(Receipt),
    /// Give back that many units without a receipt, the newest first.
    RefundUnits(u64),
    /// Put the units used at this value.
    Set(u64),
    /// Forget the key. Allowed if its state was not fresh.
    Reset,
}

/// A step on one state: an operation, or a part of a hit on several limits or keys.
///
/// See [`hit_together`] and [`AnyMachine::act`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operation of a caller.
    Op(Op),
    /// A hit that leaves no trace when it is denied, even if the limit charges denied hits.
    TryHit(u64),
    /// A hit that another part of the group denies: charges only what the limit charges for denied
    /// hits. Allowed if this part alone would be.
    DenyHit(u64),
}

/// An [`Act`], or one that is known when the code is compiled.
pub(crate) trait KnownAct: Copy {
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step;
    fn act(self) -> Act;

    /// Whether the state that this step left surely fits a word: it is within the limit.
    fn fits_a_word(step: Step) -> bool;
}

/// A hit, known as such when the code is compiled: the fast way through a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit(pub(crate) u64);

impl KnownAct for Hit {
    #[inline(always)]
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step {
        hit(machine, state, now, self.0)
    }

    fn act(self) -> Act {
        Act::Op(Op::Hit(self.0))
    }

    #[inline(always)]
    fn fits_a_word(step: Step) -> bool {
        step.allowed
    }
}

impl KnownAct for Act {
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step {
        match self {
            Act::Op(op) => step(machine, state, now, op),
            Act::TryHit(cost) if machine.fits(state.as_ref(), now, cost) => {
                hit(machine, state, now, cost)
            }
            Act::TryHit(cost) => step(machine, state, now, Op::Peek(cost)),
            Act::DenyHit(cost) => denied_by_others(machine, state, now, cost),
        }
    }

    fn act(self) -> Act {
        self
    }

    fn fits_a_word(_: Step) -> bool {
        false
    }
}

/// The result of one operation: whether it passed, what it charged and whether the state must be
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whether it passed.
    pub allowed: bool,
    /// The cost that was asked: what `retry_after` speaks of.
    pub cost: u64,
    /// Units added to the state.
    pub charged: u64,
    /// Whether the state differs from the one that was given.
    pub changed: bool,
}

/// The pure functions of one algorithm over its own state. `now` may lie before times in the state:
/// the state is the guard, as each file tells.
pub(crate) trait Machine: Copy + std::fmt::Debug {
    /// The data kept for a key between hits.
    type State: Clone + std::fmt::Debug + PartialEq;

    /// The most units a fresh key can take at once.
    fn capacity(&self) -> u64;

    /// Whether denied hits are charged too.
    fn charges_denied(&self) -> bool {
        false
    }

    /// Whether a hit of that cost passes.
    fn fits(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> bool;

    /// The largest cost that would pass.
    fn room(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Units in use, rounded up.
    fn used(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// When a hit of `cost` would pass, if nobody else comes. `cost` does not fit now and is at
    /// most the capacity.
    fn retry_at(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> Timestamp;

    /// From when on the state acts as a fresh one.
    fn fresh_at(&self, state: &Self::State) -> Timestamp;

    /// The state with `units` (at least one) more in use, whether they fit or not.
    fn charge(&self, state: Option<Self::State>, now: Timestamp, units: u64) -> Self::State;

    /// [`fits`](Machine::fits) and [`charge`](Machine::charge) in one, for machines that can share
    /// the work: charges `cost`, at least one, if it fits.
    #[inline(always)]
    fn admit(&self, state: &mut Option<Self::State>, now: Timestamp, cost: u64) -> bool {
        let fits = self.fits(state.as_ref(), now, cost);
        if fits {
            *state = Some(self.charge(state.take(), now, cost));
        }
        fits
    }

    /// The state after an attempt that charged nothing; `None` when that leaves it as it is.
    fn attempt(&self, state: Option<&Self::State>, now: Timestamp) -> Option<Self::State> {
        let _ = (state, now);
        None
    }

    /// The mark of a receipt: the window or the entry that its units went to.
    fn mark(&self, state: &Self::State) -> u64;

    /// The state with the units of a receipt given back; `None` when none of them is there any
    /// more.
    fn refund(
        &self,
        state: &Self::State,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<Self::State>>;

    /// The state with `units` (at least one) given back without a receipt, the newest first: what
    /// is in use falls by them. `None` when nothing is there to give back.
    ///
    /// Enough for states that have one place for units. Others go from the newest place backwards.
    fn refund_units(
        &self,
        state: &Self::State,
        now: Timestamp,
        units: u64,
    ) -> Option<Option<Self::State>> {
        let mark = self.mark(state);
        self.refund(state, now, &Receipt { units, at: now, mark, source: Source::Store })
    }

    /// The state with exactly `units` in use, from now on; `None` is fresh.
    fn set(&self, state: Option<&Self::State>, now: Timestamp, units: u64) -> Option<Self::State>;

    /// The view of the state from which a decision computes its fields when they are read.
    fn view(&self, state: Option<&Self::State>, now: Timestamp, step: &Step) -> View;

    /// Units in use when the state was last written: it is its own guard against an earlier time.
    /// GCRA does not remember and says 0.
    fn written(&self, state: &Self::State) -> u64 {
        self.used(Some(state), Timestamp::EPOCH)
    }

    /// How units stop counting: for stores that hand units out ahead of the hits, or that count
    /// apart and add up.
    fn aging(&self) -> Aging;

    /// When the window of a receipt with this mark ends; `None` for machines without windows.
    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        let _ = mark;
        None
    }

    /// Whether [`refund`](Machine::refund) finds a receipt by its time, and not by its mark.
    fn finds_by_time(&self) -> bool {
        false
    }

    /// The state of a bucket that is drained at `until`, seen from `at` on. `None` for other
    /// machines, and once it is drained.
    fn drained_at(&self, until: Timestamp, at: Timestamp) -> Option<Self::State> {
        let _ = (until, at);
        None
    }

    /// The state in the three numbers that a store sends which does the steps itself: see
    /// [`RemoteStep::state`].
    fn remote_state(&self, numbers: [u64; 3]) -> Option<Self::State>;

    /// The outcome of a step that such a store did.
    fn remote_outcome(&self, numbers: Option<[u64; 3]>, now: Timestamp, step: Step) -> Outcome {
        let state = numbers.and_then(|numbers| self.remote_state(numbers));
        Outcome::new(self, state.as_ref(), now, step)
    }

    /// True when the state acts as a fresh one.
    fn is_fresh(&self, state: Option<&Self::State>, now: Timestamp) -> bool {
        state.is_none_or(|state| self.fresh_at(state) <= now)
    }
}

/// How units that were charged stop counting.
///
/// See [`AnyMachine::aging`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aging {
    /// All at the end of their window, which is the clock's.
    ClockWindow,
    /// All at the end of their window, which began with a hit.
    KeyWindow,
    /// Little by little in the window after theirs.
    FadingWindow,
    /// Each one a period after it was charged.
    Log,
    /// Steadily, at the rate of the limit.
    Bucket,
    /// Only after the last attempt of any kind.
    Attempts,
}

/// One operation on one state: every meaning of hit, peek, take, charge, refund and set for every
/// algorithm.
///
/// The state is changed in place only if [`Step::changed`] says so.
pub(crate) fn step<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    op: Op,
) -> Step {
    match op {
        Op::Hit(cost) => hit(machine, state, now, cost),
        Op::Peek(cost) => {
            let allowed = machine.fits(state.as_ref(), now, cost);
            Step { allowed, cost, charged: 0, changed: false }
        }
        Op::Take(cost) => {
            let granted = machine.room(state.as_ref(), now).min(cost);
            if cost == 0 {
                hit(machine, state, now, 0)
            } else if granted == 0 {
                // It waits for the first unit.
                denied(machine, state, now, 1)
            } else {
                charged(machine, state, now, cost, granted)
            }
        }
        Op::Charge(units) => charged(machine, state, now, units, units),
        Op::Refund(receipt) => refund(machine, state, now, Some(receipt), receipt.units),
        Op::RefundUnits(units) => refund(machine, state, now, None, units),
        Op::Set(units) => {
            let next = machine.set(state.as_ref(), now, units.min(MAX_UNITS));
            let changed = *state != next;
            *state = next;
            Step { allowed: true, cost: 0, charged: 0, changed }
        }
        Op::Reset => {
            let allowed = !machine.is_fresh(state.as_ref(), now);
            Step { allowed, cost: 0, charged: 0, changed: state.take().is_some() }
        }
    }
}

/// [`Op::Hit`], the operation that must be fast.
#[inline(always)]
pub(crate) fn hit<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    cost: u64,
) -> Step {
    if cost == 0 {
        let allowed = machine.fits(state.as_ref(), now, 0);
        return Step { allowed, cost, charged: 0, changed: attempt(machine, state, now) };
    }
    if machine.admit(state, now, cost) {
        Step { allowed: true, cost, charged: cost, changed: true }
    } else {
        denied(machine, state, now, cost)
    }
}

/// Charges what has been granted. Nothing charged is nothing changed, so a cost of zero opens no
/// window; it is an attempt all the same.
fn charged<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    cost: u64,
    units: u64,
) -> Step {
    if units == 0 {
        let changed = attempt(machine, state, now);
        return Step { allowed: true, cost, charged: 0, changed };
    }
    let units = units.min(MAX_UNITS);
    *state = Some(machine.charge(state.take(), now, units));
    Step { allowed: true, cost, charged: units, changed: true }
}

/// The state after a denied attempt: unchanged, a pushed elastic window, or one more counted
/// attempt with `charge-denied`.
#[inline]
fn denied<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    cost: u64,
) -> Step {
    if machine.charges_denied() && cost > 0 {
        let charged = cost.min(MAX_UNITS);
        *state = Some(machine.charge(state.take(), now, charged));
        return Step { allowed: false, cost, charged, changed: true };
    }
    let changed = attempt(machine, state, now);
    Step { allowed: false, cost, charged: 0, changed }
}

/// This limit's part in a hit that another one denies: `allowed` tells whether this limit alone
/// would have let it pass.
fn denied_by_others<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    cost: u64,
) -> Step {
    let allowed = machine.fits(state.as_ref(), now, cost);
    Step { allowed, ..denied(machine, state, now, cost) }
}

fn attempt<M: Machine>(machine: &M, state: &mut Option<M::State>, now: Timestamp) -> bool {
    let next = machine.attempt(state.as_ref(), now);
    let changed = next.is_some() && next != *state;
    if changed {
        *state = next;
    }
    changed
}

fn refund<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    receipt: Option<Receipt>,
    units: u64,
) -> Step {
    let nothing = Step { allowed: true, cost: 0, charged: 0, changed: false };
    let Some(old) = state.as_ref().filter(|_| units > 0) else { return nothing };
    let units = units.min(MAX_UNITS);
    let next = match receipt {
        Some(receipt) => machine.refund(old, now, &Receipt { units, ..receipt }),
        None => machine.refund_units(old, now, units),
    };
    match next {
        Some(next) if next.as_ref() != Some(old) => {
            *state = next;
            Step { changed: true, ..nothing }
        }
        _ => nothing,
    }
}
