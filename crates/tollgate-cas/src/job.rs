//! A job: the operations of one call on some cells.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate::algorithm::{Act, AnyMachine, AnyState, Op, hit_together};
use tollgate::{Error, Outcome, Timestamp};

/// A limit, prepared for a [`Cas`](crate::Cas).
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Prefix of the names of its cells.
    pub(crate) place: Arc<[u8]>,
    pub(crate) machine: Arc<AnyMachine>,
}

/// The calls of one caller on the cells of a queue: one call per cell, in the order of the cells.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) calls: Vec<CellCall>,
    /// The time to decide at. `None` for the store's clock.
    pub(crate) at: Option<Timestamp>,
    /// When the caller stops waiting, by the clock of this process. `None` if the job must be done
    /// in any case.
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Outcome>, Error>>,
}

/// The step on the state of one cell, and the machine of its limit.
#[derive(Clone, Debug)]
pub(crate) struct CellCall {
    pub(crate) machine: Arc<AnyMachine>,
    pub(crate) act: Act,
}

impl Job {
    pub(crate) fn is_read_only(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.act, Act::Op(Op::Peek(_))))
    }

    /// Applies all calls to the states. Several calls are hits: all are charged or none is.
    pub(crate) fn apply(&self, states: &mut [Option<AnyState>], now: Timestamp) -> Vec<Outcome> {
        if let ([call], [state]) = (&self.calls[..], &mut *states) {
            return vec![call.machine.act(state, now, call.act)];
        }
        let parts = self.calls.iter().map(|call| call.machine.part(call.cost()));
        let Ok(outcomes): Result<_, Infallible> = hit_together(parts, |call, act| {
            Ok(self.calls[call].machine.act(&mut states[call], now, act))
        });
        outcomes
    }
}

impl CellCall {
    /// The cost of a hit; 0 for all other operations.
    pub(crate) fn cost(&self) -> u64 {
        if let Act::Op(Op::Hit(cost)) = self.act { cost } else { 0 }
    }
}
