//! What is done to a state, and the jobs that callers bring.

use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Decision, Error, Timestamp};

/// A limit as a [`Cas`](crate::Cas) holds it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// How the names of its cells begin.
    pub(crate) place: Arc<[u8]>,
    pub(crate) machine: Arc<AnyMachine>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Op(Op),
    /// A hit that leaves no trace when it is refused, whatever the limit says.
    Try(u64),
    /// This limit's part in a hit that another one refuses.
    Refuse(u64),
    /// Forgets the state. The decision is of what was there.
    Reset,
}

impl Act {
    pub(crate) fn on(
        self,
        machine: &AnyMachine,
        state: &mut Option<AnyState>,
        now: Timestamp,
    ) -> Decision {
        match self {
            Act::Op(op) => machine.apply(state, now, op),
            Act::Try(cost) => {
                let asked = machine.apply(state, now, Op::Peek(cost));
                if asked.allowed() { machine.apply(state, now, Op::Hit(cost)) } else { asked }
            }
            Act::Refuse(cost) => machine.refuse(state, now, cost),
            Act::Reset => {
                let was = machine.apply(state, now, Op::Peek(0));
                *state = None;
                was
            }
        }
    }
}

/// What one caller wants of the cells of a desk: one part for each of them, in their order.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) parts: Vec<Part>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) answer: oneshot::Sender<Result<Vec<Decision>, Error>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) machine: Arc<AnyMachine>,
    pub(crate) act: Act,
}

impl Job {
    pub(crate) fn only_looks(&self) -> bool {
        self.parts.iter().all(|part| part.act.only_looks())
    }

    /// Does all parts on the states. Several parts are hits: all are charged or none is.
    pub(crate) fn on(&self, states: &mut [Option<AnyState>], now: Timestamp) -> Vec<Decision> {
        let each = self.parts.iter().zip(states);
        if self.parts.len() == 1 {
            return each.map(|(part, state)| part.act.on(&part.machine, state, now)).collect();
        }
        let mut each: Vec<_> = each.collect();
        let fits = |(part, state): &mut (&Part, &mut Option<AnyState>)| {
            let fits = |cost| part.machine.apply(state, now, Op::Peek(cost)).allowed();
            part.act.cost().is_none_or(fits)
        };
        let pass = each.iter_mut().all(fits);
        let act = |(part, state): (&Part, &mut Option<AnyState>)| match part.act.cost() {
            Some(cost) if !pass => Act::Refuse(cost).on(&part.machine, state, now),
            _ => part.act.on(&part.machine, state, now),
        };
        each.into_iter().map(act).collect()
    }
}

impl Act {
    /// Whether it changes no state.
    fn only_looks(self) -> bool {
        matches!(self, Act::Op(Op::Peek(_)))
    }

    /// Of a hit.
    fn cost(self) -> Option<u64> {
        match self {
            Act::Op(Op::Hit(cost)) | Act::Try(cost) => Some(cost),
            _ => None,
        }
    }
}
