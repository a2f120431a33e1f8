//! The counts of one key, and how the counts of two replicas merge.

use tollgate::Timestamp;

use super::slot::{Kind, Slot};

/// One start of one process: a random number that is never used again.
pub type Actor = u64;

/// The units that one actor has counted in one slot. Every field only grows, so two versions merge
/// by the larger value of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Units charged.
    pub(crate) charged: u64,
    /// Units among these that the actor has given back.
    pub(crate) refunded: u64,
    /// Units among these that any actor has forgotten by a reset.
    pub(crate) forgotten: u64,
}

impl Count {
    /// Units that count.
    pub(crate) fn units(self) -> u64 {
        self.charged.saturating_sub(self.refunded).saturating_sub(self.forgotten)
    }

    /// Takes the larger values of another version; true if one changed.
    fn merge(&mut self, other: Count) -> bool {
        let before = *self;
        self.charged = self.charged.max(other.charged);
        self.refunded = self.refunded.max(other.refunded);
        self.forgotten = self.forgotten.max(other.forgotten);
        *self != before
    }

    /// Closes the gap of the actor's own counts: a refund and a reset that cross can give back and
    /// forget more units than were charged. The charge is raised to their sum, so that the next
    /// units do not vanish in the gap.
    fn close_gap(&mut self) -> bool {
        let least = self.refunded.saturating_add(self.forgotten);
        let gap = self.charged < least;
        self.charged = self.charged.max(least);
        gap
    }
}

/// A count with its slot and actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) slot: Slot,
    pub(crate) actor: Actor,
    pub(crate) count: Count,
}

/// All counts of a key, by slot and actor, ordered by the ends of the slots. A merge takes the
/// larger of each count, so order, repetition and route of arrival do not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(Vec<Cell>);

impl Counts {
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, slot: Slot, actor: Actor) -> Result<usize, usize> {
        self.0.binary_search_by(|cell| (cell.slot, cell.actor).cmp(&(slot, actor)))
    }

    fn count_mut(&mut self, slot: Slot, actor: Actor) -> &mut Count {
        let index = self.find(slot, actor).unwrap_or_else(|index| {
            self.0.insert(index, Cell { slot, actor, count: Count::default() });
            index
        });
        &mut self.0[index].count
    }

    /// Counts units of an actor.
    pub(crate) fn charge(&mut self, slot: Slot, actor: Actor, units: u64) {
        let count = self.count_mut(slot, actor);
        count.charged = count.charged.saturating_add(units);
    }

    /// Gives back at most `units` of the units that the actor itself has in a slot. Returns how
    /// many it gave back.
    pub(crate) fn refund(&mut self, slot: Slot, actor: Actor, units: u64) -> u64 {
        let Ok(index) = self.find(slot, actor) else { return 0 };
        let count = &mut self.0[index].count;
        let back = units.min(count.units());
        count.refunded = count.refunded.saturating_add(back);
        back
    }

    /// Forgets all known units, whichever actor counted them.
    pub(crate) fn forget(&mut self) {
        for Cell { count, .. } in &mut self.0 {
            count.forgotten = count.forgotten.saturating_add(count.units());
        }
    }

    /// Merges a cell. `own` is the actor that keeps these counts.
    pub(crate) fn merge(&mut self, cell: Cell, own: Actor) -> Merged {
        let count = self.count_mut(cell.slot, cell.actor);
        let forgotten = count.forgotten;
        let changed = count.merge(cell.count);
        let gap = cell.actor == own && count.close_gap();
        Merged { changed, reset: count.forgotten > forgotten, gap }
    }

    /// Removes the counts of dead slots, oldest first.
    pub(crate) fn take_dead(
        &mut self,
        kind: Kind,
        now: Timestamp,
    ) -> impl Iterator<Item = Cell> + '_ {
        let dead = self.0.iter().take_while(|cell| cell.slot.is_dead(kind, now)).count();
        self.0.drain(..dead)
    }

    /// The newest slot in which an actor has counted.
    pub(crate) fn newest(&self, actor: Actor) -> Option<Slot> {
        self.0.iter().rev().find(|cell| cell.actor == actor).map(|cell| cell.slot)
    }
}

/// The result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Whether anything was new.
    pub(crate) changed: bool,
    /// Whether units were forgotten.
    pub(crate) reset: bool,
    /// Whether the own count was raised, so that it must be sent to the others.
    pub(crate) gap: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Actor = 99;

    fn cells() -> impl Strategy<Value = Vec<Cell>> {
        let count = (0..5u64, 0..5u64, 0..5u64).prop_map(|(charged, refunded, forgotten)| Count {
            charged,
            refunded,
            forgotten,
        });
        let slot = (0..4u64, 1..3u64).prop_map(|(number, span)| Slot { number, span });
        let cell =
            (slot, 0..3u64, count).prop_map(|(slot, actor, count)| Cell { slot, actor, count });
        prop::collection::vec(cell, 0..12)
    }

    fn merged(parts: &[&[Cell]]) -> Counts {
        let mut counts = Counts::default();
        for cell in parts.iter().copied().flatten() {
            counts.merge(*cell, OWN);
        }
        counts
    }

    proptest! {
        #[test]
        fn merge_is_commutative_associative_and_idempotent(a in cells(), b in cells(), c in cells()) {
            let all = merged(&[&a, &b, &c]);
            prop_assert_eq!(&all, &merged(&[&c, &b, &a]));
            prop_assert_eq!(&all, &merged(&[&b, &a, &c, &b, &a]));
            let ab = merged(&[&a, &b]);
            let bc = merged(&[&b, &c]);
            prop_assert_eq!(&all, &merged(&[ab.cells(), &c]));
            prop_assert_eq!(&all, &merged(&[&a, bc.cells()]));
        }

        #[test]
        fn a_merge_of_charges_never_lowers_a_count(a in cells(), b in cells()) {
            let plain = |cells: Vec<Cell>| -> Vec<Cell> {
                let charged = |cell: Cell| Count { charged: cell.count.charged, ..Count::default() };
                cells.into_iter().map(|cell| Cell { count: charged(cell), ..cell }).collect()
            };
            let (a, b) = (plain(a), plain(b));
            let (before, after) = (merged(&[&a]), merged(&[&a, &b]));
            for cell in before.cells() {
                let index = after.find(cell.slot, cell.actor).unwrap();
                prop_assert!(after.cells()[index].count.units() >= cell.count.units());
            }
        }
    }

    #[test]
    fn units_after_a_crossing_of_refund_and_reset_count() {
        let slot = Slot { number: 1, span: 10 };
        let mut own = Counts::default();
        own.charge(slot, OWN, 5);
        let mut other = own.clone();
        other.forget();
        own.refund(slot, OWN, 2);
        assert!(own.merge(other.cells()[0], OWN).gap);
        own.charge(slot, OWN, 3);
        assert_eq!(own.cells()[0].count.units(), 3);
    }
}
