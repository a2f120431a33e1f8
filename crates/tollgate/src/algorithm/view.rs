//! The part of a decision from which its fields are computed, only when they are read.

use super::elastic_window::ElasticWindow;
use super::fixed_window::FixedWindow;
use super::fixed_window_per_key::FixedWindowPerKey;
use super::gcra::Gcra;
use super::level::Level;
use super::sliding_window::SlidingWindow;
use super::{
    Machine, Step, elastic_window, fixed_window, fixed_window_per_key, gcra, level, sliding_window,
};
use crate::time::Timestamp;

/// A machine and the state after the operation, or the computed fields where the state is too large
/// to carry or is kept elsewhere.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the variants are the algorithms
#[non_exhaustive]
pub enum View {
    FixedWindow(FixedWindow, Option<fixed_window::FixedWindowState>),
    FixedWindowPerKey(FixedWindowPerKey, Option<fixed_window_per_key::FixedWindowPerKeyState>),
    ElasticWindow(ElasticWindow, Option<elastic_window::ElasticWindowState>),
    SlidingWindow(SlidingWindow, Option<sliding_window::SlidingWindowState>),
    Level(Level, Option<level::LevelState>),
    Gcra(Gcra, Option<gcra::GcraState>),
    Fields(Fields),
}

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

impl View {
    /// Computes all fields. The compiler leaves out those that the caller does not use.
    #[inline(always)]
    pub(crate) fn fields(&self, now: Timestamp, step: &Step) -> Fields {
        match self {
            View::FixedWindow(machine, state) => Fields::of(machine, state.as_ref(), now, step),
            View::FixedWindowPerKey(machine, state) => {
                Fields::of(machine, state.as_ref(), now, step)
            }
            View::ElasticWindow(machine, state) => Fields::of(machine, state.as_ref(), now, step),
            View::SlidingWindow(machine, state) => Fields::of(machine, state.as_ref(), now, step),
            View::Level(machine, state) => Fields::of(machine, state.as_ref(), now, step),
            View::Gcra(machine, state) => Fields::of(machine, state.as_ref(), now, step),
            View::Fields(fields) => *fields,
        }
    }
}
