//! The fields of a decision, computed only when they are read.

use super::{Machine, Step};
use crate::time::Timestamp;

/// The computed fields of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The capacity.
    pub limit: u64,
    /// The largest cost that would still pass.
    pub remaining: u64,
    /// Units in use.
    pub used: u64,
    /// When the denied cost would pass; `None` if never. After an allowed cost that left nothing,
    /// when one unit would pass, or `None` if that is not known. It has no meaning when units are
    /// left.
    pub retry_at: Option<Timestamp>,
    /// From when on the state acts like a fresh one; `None` for a fresh one.
    pub fresh_at: Option<Timestamp>,
    /// The number that a receipt keeps for its refund.
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
