//! The operations of every algorithm, made of the primitives of its machine.

use super::{MAX_UNITS, Machine, Op, Step};
use crate::outcome::Receipt;
use crate::time::Timestamp;

/// Executes one operation on one state. This defines hit, peek, take, charge, refund, set and reset
/// for all algorithms.
///
/// The state is changed in place only if [`Step::changed`] says so.
pub(super) fn step<M: Machine>(
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
            let old = state.take();
            let was_kept = old.is_some();
            *state = machine.reset(old, now);
            Step { allowed, cost: 0, charged: 0, changed: was_kept }
        }
    }
}

/// Executes [`Op::Hit`], the operation that must be fast.
#[inline(always)]
pub(super) fn hit<M: Machine>(
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
pub(super) fn denied_by_others<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
    cost: u64,
) -> Step {
    let allowed = machine.fits(state.as_ref(), now, cost);
    Step { allowed, ..denied(machine, state, now, cost) }
}

/// Counts a denial by another limit of the policy. `allowed` says whether the key may go on.
pub(super) fn count_denial<M: Machine>(
    machine: &M,
    state: &mut Option<M::State>,
    now: Timestamp,
) -> Step {
    let changed = replace(state, machine.after_denial(state.as_ref(), now));
    let allowed = machine.fits(state.as_ref(), now, 0);
    Step { allowed, cost: 0, charged: 0, changed }
}

fn attempt<M: Machine>(machine: &M, state: &mut Option<M::State>, now: Timestamp) -> bool {
    replace(state, machine.attempt(state.as_ref(), now))
}

/// Writes the next state, if there is one. Returns whether the state changed.
fn replace<S: PartialEq>(state: &mut Option<S>, next: Option<S>) -> bool {
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
