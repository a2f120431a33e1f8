//! One state without a key.

use super::pack::{ByWidth, Pack, Packing, fit, width, with_packed};
use super::sync::Ordering;
use super::word::Word;
use crate::algorithm::{AnyMachine, KnownAct};
use crate::error::Error;
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// One word, with the machine and the packing of its state.
#[derive(Debug)]
pub(crate) struct Single {
    machine: AnyMachine,
    packing: Packing,
    cell: ByWidth<Cell<u64>, Cell<u128>>,
}

#[derive(Debug)]
struct Cell<W: Word>(W::Cell);

impl Single {
    pub(crate) fn new(limit: &Limit, now: Timestamp) -> Result<Self, Error> {
        let cell = match width(limit)? {
            ByWidth::Narrow(()) => ByWidth::Narrow(Cell(u64::VOID.cell())),
            ByWidth::Wide(()) => ByWidth::Wide(Cell(u128::VOID.cell())),
        };
        Ok(Single { machine: AnyMachine::new(limit), packing: Packing::new(limit, now), cell })
    }

    #[inline]
    pub(crate) fn act(&self, now: Timestamp, act: impl KnownAct) -> Outcome {
        with_packed!(&self.cell, &self.machine, (cell, machine) => self.on(cell, machine, now, act))
    }

    #[inline(always)]
    fn on<W: Word, M: Pack<W>, A: KnownAct>(
        &self,
        Cell(cell): &Cell<W>,
        machine: &M,
        now: Timestamp,
        act: A,
    ) -> Outcome {
        let now = self.packing.within(now);
        let mut word = W::load(cell, Ordering::Acquire);
        loop {
            let mut state = word.payload().map(|payload| machine.unpack(&self.packing, payload));
            let before = state.clone();
            let mut step = act.step(machine, &mut state, now);
            if step.changed && !A::fits_a_word(step) {
                fit(machine, &self.packing, before.as_ref(), &mut state, now, &mut step);
            }
            let decision = Outcome::new(machine, state.as_ref(), now, step);
            if !step.changed {
                return decision;
            }
            let pack = |state| W::present(machine.pack(&self.packing, state));
            match W::replace(cell, word, state.as_ref().map_or(W::CLEARED, pack)) {
                Ok(()) => return decision,
                Err(found) => word = found,
            }
        }
    }
}
