//! Splits counts into messages of moderate size.

use std::collections::HashMap;
use std::sync::Arc;

use super::counts::{Actor, Cell, Count};
use super::entry::{Carry, Entry};
use super::limits::Held;
use super::message::{FULL, KeyTally, LimitTally, Tallies, Tally};
use super::slot::{Kind, Slot};

/// Collects counts and splits them into messages.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    full: Vec<Tallies>,
    open: Tallies,
    size: usize,
    actors: HashMap<Actor, u32>,
    limits: HashMap<u64, usize>,
}

impl Packer {
    pub(crate) fn push(&mut self, entry: &Entry, carry: Option<Carry>, cells: &[Cell]) {
        if cells.is_empty() && carry.is_none() {
            return;
        }
        // An estimate; the actor and the slot of a bucket are the long fields.
        let size = entry.key.len() + 24 * cells.len() + 24;
        if self.size > 0 && self.size + size > FULL {
            self.cut();
        }
        self.size += size;
        let tallies = cells.iter().map(|cell| self.tally(cell)).collect();
        let carry = carry.map(|carry| (carry.until.as_micros(), carry.folded.as_micros()));
        let key = KeyTally { key: entry.key.to_vec(), carry, tallies };
        let limit = self.limit(&entry.held);
        self.open.limits[limit].keys.push(key);
    }

    fn tally(&mut self, cell: &Cell) -> Tally {
        let actors = &mut self.open.actors;
        let actor = *self.actors.entry(cell.actor).or_insert_with(|| {
            actors.push(cell.actor);
            actors.len() as u32 - 1
        });
        let Cell { slot, count, .. } = *cell;
        Tally {
            actor,
            span: slot.span,
            slot: slot.number,
            charged: count.charged,
            refunded: count.refunded,
            forgotten: count.forgotten,
        }
    }

    fn limit(&mut self, held: &Arc<Held>) -> usize {
        let (open, size) = (&mut self.open, &mut self.size);
        *self.limits.entry(held.number).or_insert_with(|| {
            *size += held.prefix.len();
            let kind = Kind::ALL.iter().position(|kind| *kind == held.kind).unwrap_or(0) as u8;
            open.limits.push(LimitTally { kind, place: held.prefix.to_vec(), keys: Vec::new() });
            open.limits.len() - 1
        })
    }

    fn cut(&mut self) {
        self.full.push(std::mem::take(&mut self.open));
        self.actors.clear();
        self.limits.clear();
        self.size = 0;
    }

    pub(crate) fn finish(mut self) -> Vec<Tallies> {
        if self.size > 0 {
            self.cut();
        }
        self.full
    }
}

/// The count of a tally; `None` if it is not valid.
pub(crate) fn cell(tally: &Tally, actors: &[Actor]) -> Option<Cell> {
    let actor = *actors.get(tally.actor as usize)?;
    let slot = Slot { number: tally.slot, span: tally.span };
    let Tally { charged, refunded, forgotten, .. } = *tally;
    (tally.span > 0).then_some(Cell { slot, actor, count: Count { charged, refunded, forgotten } })
}
