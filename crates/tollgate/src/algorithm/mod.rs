//! The algorithms: pure functions of (limit, state, now), one file each.
//!
//! Each file first describes its algorithm, and then implements the few primitives of the trait
//! `Machine`. The function `step` builds every operation from these primitives, for all algorithms.
//! No function here reads a clock or fails, and only the log of the moving window is allocated.
//!
//! A state is an `Option`. `None` is a fresh state, and a state that has expired at `now` acts as
//! `None` in every primitive.

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

/// The number at which counts saturate: a thousand times the largest quota.
pub const MAX_UNITS: u64 = 1_000 * crate::limit::MAX_QUOTA;

/// An operation on a key. Each store supports all operations.
///
/// ```
/// use tollgate::algorithm::Op;
/// assert_ne!(Op::Hit(1), Op::Peek(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Decide on a cost and charge it if it passes.
    Hit(u64),
    /// Decide on a hit of this cost, and change nothing.
    Peek(u64),
    /// Charge as many units as fit, from zero to this number.
    Take(u64),
    /// Charge this many units without checking.
    Charge(u64),
    /// Give back the units of a receipt.
    Refund(Receipt),
    /// Give back this many units without a receipt, the newest first.
    RefundUnits(u64),
    /// Set the units in use to this number.
    Set(u64),
    /// Forget the key. The outcome is allowed if the state was not fresh.
    Reset,
}

/// A step on one state: an operation, or a part of a hit on several limits or keys.
///
/// See [`hit_together`] and [`AnyMachine::act`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operation of a caller.
    Op(Op),
    /// A hit that changes nothing if it is denied, even if the limit charges denied hits.
    TryHit(u64),
    /// A hit that another part of the group denies. It charges only what the limit charges for
    /// denied hits. The outcome is allowed if this part alone would allow the hit.
    DenyHit(u64),
}

/// An [`Act`] that may be known at compile time.
pub(crate) trait KnownAct: Copy {
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step;
    fn act(self) -> Act;

    /// Returns whether the state after this step certainly fits a word, because it is within the
    /// limit.
    fn fits_a_word(step: Step) -> bool;
}

/// A hit that is known at compile time, for the fast path of a store.
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

/// The result of one operation: whether it was allowed, how many units it charged, and whether the
/// state must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whether the operation was allowed.
    pub allowed: bool,
    /// The cost of the operation, to which `retry_after` refers.
    pub cost: u64,
    /// The units added to the state.
    pub charged: u64,
    /// Whether the state has changed.
    pub changed: bool,
}

/// The pure functions of one algorithm on its own type of state. `now` may be earlier than times in
/// the state. Each file describes how the state guards against that.
pub(crate) trait Machine: Copy + std::fmt::Debug {
    /// The data kept for a key between hits.
    type State: Clone + std::fmt::Debug + PartialEq;

    /// Returns the largest number of units that a fresh key can take at one instant.
    fn capacity(&self) -> u64;

    /// Returns whether denied hits are charged too.
    fn charges_denied(&self) -> bool {
        false
    }

    /// Returns whether a hit of this cost passes.
    fn fits(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> bool;

    /// Returns the largest cost that would pass.
    fn room(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Returns the units in use, rounded up.
    fn used(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Returns the time at which a hit of `cost` would pass if there is no other hit. `cost` does
    /// not fit now, and is at most the capacity.
    fn retry_at(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> Timestamp;

    /// Returns the time from which the state acts as a fresh one.
    fn fresh_at(&self, state: &Self::State) -> Timestamp;

    /// Returns the state with `units` (at least one) more in use, whether they fit or not.
    fn charge(&self, state: Option<Self::State>, now: Timestamp, units: u64) -> Self::State;

    /// Charges `cost` (at least one) if it fits, and returns whether it did. Machines may implement
    /// it faster than [`fits`](Machine::fits) followed by [`charge`](Machine::charge).
    #[inline(always)]
    fn admit(&self, state: &mut Option<Self::State>, now: Timestamp, cost: u64) -> bool {
        let fits = self.fits(state.as_ref(), now, cost);
        if fits {
            *state = Some(self.charge(state.take(), now, cost));
        }
        fits
    }

    /// Returns the state after an attempt that charged nothing. `None` if the attempt does not
    /// change the state.
    fn attempt(&self, state: Option<&Self::State>, now: Timestamp) -> Option<Self::State> {
        let _ = (state, now);
        None
    }

    /// Returns the mark of a receipt: the number of the window or entry that was charged.
    fn mark(&self, state: &Self::State) -> u64;

    /// Returns the state after the units of a receipt were given back. `None` if none of these
    /// units is still counted.
    fn refund(
        &self,
        state: &Self::State,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<Self::State>>;

    /// Returns the state after `units` (at least one) were given back without a receipt, the newest
    /// first, so that the units in use fall by that number. `None` if no units are counted.
    ///
    /// The default implementation is correct for states with a single count. Other machines take
    /// the units from the newest count first.
    fn refund_units(
        &self,
        state: &Self::State,
        now: Timestamp,
        units: u64,
    ) -> Option<Option<Self::State>> {
        let mark = self.mark(state);
        self.refund(state, now, &Receipt { units, at: now, mark, source: Source::Store })
    }

    /// Returns the state with exactly `units` in use from `now` on.
    fn set(&self, state: Option<&Self::State>, now: Timestamp, units: u64) -> Option<Self::State>;

    /// Returns the view from which an outcome computes its fields when they are read.
    fn view(&self, state: Option<&Self::State>, now: Timestamp, step: &Step) -> View;

    /// Returns the units in use when the state was last written. At an earlier time than that, a
    /// state acts as at the time when it was written. GCRA does not remember that time and returns
    /// 0.
    fn written(&self, state: &Self::State) -> u64 {
        self.used(Some(state), Timestamp::EPOCH)
    }

    /// Returns the way in which charged units stop counting. Stores need it if they draw units in
    /// advance, or if nodes count separately and add their counts.
    fn aging(&self) -> Aging;

    /// Returns the end of the window of a receipt with this mark. `None` for machines without
    /// windows.
    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        let _ = mark;
        None
    }

    /// Returns whether [`refund`](Machine::refund) uses the time of a receipt, and not its mark.
    fn finds_by_time(&self) -> bool {
        false
    }

    /// Returns the state at `at` of a bucket that becomes fresh at `until`. `None` for other
    /// machines, and if `until` is not after `at`.
    fn drained_at(&self, until: Timestamp, at: Timestamp) -> Option<Self::State> {
        let _ = (until, at);
        None
    }

    /// Returns the state of the three numbers that a store sends if it executes the algorithm
    /// itself: see [`RemoteStep::state`].
    fn remote_state(&self, numbers: [u64; 3]) -> Option<Self::State>;

    /// Returns the outcome of a step that such a store executed.
    fn remote_outcome(&self, numbers: Option<[u64; 3]>, now: Timestamp, step: Step) -> Outcome {
        let state = numbers.and_then(|numbers| self.remote_state(numbers));
        Outcome::new(self, state.as_ref(), now, step)
    }

    /// Returns whether the state acts as a fresh one.
    fn is_fresh(&self, state: Option<&Self::State>, now: Timestamp) -> bool {
        state.is_none_or(|state| self.fresh_at(state) <= now)
    }
}

/// The way in which charged units stop counting.
///
/// See [`AnyMachine::aging`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aging {
    /// All units of a window stop counting at its end. The windows are those of the clock.
    ClockWindow,
    /// All units of a window stop counting at its end. A window begins with a hit.
    KeyWindow,
    /// The units of a window stop counting gradually during the next window.
    FadingWindow,
    /// Each unit stops counting one period after it was charged.
    Log,
    /// Units stop counting steadily, at the rate of the limit.
    Bucket,
    /// All units stop counting one period after the last attempt, allowed or denied.
    Attempts,
}

/// Executes one operation on one state. This defines hit, peek, take, charge, refund, set and reset
/// for all algorithms.
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
                // A denied take reports the wait for one unit.
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

/// Executes [`Op::Hit`], the operation that must be fast.
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

/// Charges the granted units. A charge of zero units opens no window, but it is an attempt, which
/// extends an open elastic window.
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

/// Executes a denied attempt. The state does not change, except that an elastic window is extended,
/// and that with `charge-denied` the cost is charged.
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

/// Executes this limit's part of a hit that another limit denies. `allowed` says whether this limit
/// alone would have allowed the hit.
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
