//! The fields of a decision, computed only when they are read.

use super::{Machine, Step};
use crate::time::Timestamp;

/// The computed fields of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The capacity of the limit.
    pub limit: u64,
    /// The largest cost that would still pass.
    pub remaining: u64,
    /// The units in use, rounded up.
    pub used: u64,
    /// The time at which the denied cost would pass, or `None` if it never passes. After an allowed
    /// cost that left no units, the time at which one unit would pass, or `None` if that is not
    /// known. It has no meaning if the cost was allowed and units are left.
    pub retry_at: Option<Timestamp>,
    /// The time from which the state acts as a fresh one. `None` if it already does.
    pub fresh_at: Option<Timestamp>,
    /// The mark of the receipt: the number of the window or entry that was charged.
    pub mark: u64,
}

impl Fields {
    #[inline(always)]
    pub(crate) fn of<M: Machine>(
        machine: &M,
        state: Option<&M::State>,
        now: Timestamp,
        step: &Step,
    ) -> Fields {
        let remaining = machine.room(state, now);
        let awaited = if step.allowed { 1 } else { step.cost };
        let waits = !step.allowed || remaining == 0;
        let reachable = waits && awaited <= machine.capacity();
        Fields {
            limit: machine.capacity(),
            remaining,
            used: machine.used(state, now),
            retry_at: reachable.then(|| machine.retry_at(state, now, awaited)),
            fresh_at: state.map(|state| machine.fresh_at(state)).filter(|at| *at > now),
            mark: state.map_or(0, |state| machine.mark(state)),
        }
    }
}
