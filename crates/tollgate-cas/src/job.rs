//! A job: the operations that one caller wants done on some cells.

use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Error, Outcome, Timestamp};

/// A limit, prepared for a [`Cas`](crate::Cas).
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Prefix of the names of its cells.
    pub(crate) place: Arc<[u8]>,
    pub(crate) machine: Arc<AnyMachine>,
}

/// An operation on the state of one cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CellOp {
    Op(Op),
    /// A hit that changes nothing when it is denied, even if the limit charges denied hits.
    TryHit(u64),
    /// A hit that another limit of its group denies: charges only what the limit charges for denied
    /// hits.
    DenyHit(u64),
    /// Deletes the state. The decision describes the state before that.
    Reset,
}

impl CellOp {
    /// Applies it to a state.
    pub(crate) fn apply(
        self,
        machine: &AnyMachine,
        state: &mut Option<AnyState>,
        now: Timestamp,
    ) -> Outcome {
        match self {
            CellOp::Op(op) => machine.apply(state, now, op),
            CellOp::TryHit(cost) => {
                let peeked = machine.apply(state, now, Op::Peek(cost));
                if peeked.allowed() { machine.apply(state, now, Op::Hit(cost)) } else { peeked }
            }
            CellOp::DenyHit(cost) => machine.refuse(state, now, cost),
            CellOp::Reset => {
                let before = machine.apply(state, now, Op::Peek(0));
                *state = None;
                before
            }
        }
    }
}

/// What one caller wants done on the cells of a queue: one call per cell, in the order of the
/// cells.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) calls: Vec<CellCall>,
    /// The time to decide at. `None` for the store's clock.
    pub(crate) at: Option<Timestamp>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Outcome>, Error>>,
}

/// An operation, with the machine of its limit.
#[derive(Clone, Debug)]
pub(crate) struct CellCall {
    pub(crate) machine: Arc<AnyMachine>,
    pub(crate) op: CellOp,
}

impl Job {
    pub(crate) fn is_read_only(&self) -> bool {
        self.calls.iter().all(|call| call.op.is_read_only())
    }

    /// Applies all calls to the states. Several calls are hits: all are charged or none is.
    pub(crate) fn apply(&self, states: &mut [Option<AnyState>], now: Timestamp) -> Vec<Outcome> {
        let each = self.calls.iter().zip(states);
        if self.calls.len() == 1 {
            return each.map(|(call, state)| call.op.apply(&call.machine, state, now)).collect();
        }
        let mut each: Vec<_> = each.collect();
        let fits = |(call, state): &mut (&CellCall, &mut Option<AnyState>)| {
            let fits = |cost| call.machine.apply(state, now, Op::Peek(cost)).allowed();
            call.op.hit_cost().is_none_or(fits)
        };
        let all_fit = each.iter_mut().all(fits);
        let apply = |(call, state): (&CellCall, &mut Option<AnyState>)| match call.op.hit_cost() {
            Some(cost) if !all_fit => CellOp::DenyHit(cost).apply(&call.machine, state, now),
            _ => call.op.apply(&call.machine, state, now),
        };
        each.into_iter().map(apply).collect()
    }
}

impl CellOp {
    fn is_read_only(self) -> bool {
        matches!(self, CellOp::Op(Op::Peek(_)))
    }

    fn hit_cost(self) -> Option<u64> {
        match self {
            CellOp::Op(Op::Hit(cost)) | CellOp::TryHit(cost) => Some(cost),
            _ => None,
        }
    }
}
