//! One key of one limit: its counts, and the state that decides.
//!
//! # A state from counts
//!
//! The machine decides, on a state that is the counts charged slot by slot, the slot that ends
//! first in front. While no counts of other nodes arrive, the state is stepped at the exact time of
//! each hit. When some have arrived, it is derived again.
//!
//! A derived state never allows more than the units, charged when they were admitted, would. For a
//! bucket with an interval `e` per unit the arrival time after charging `c_j` at `t_j` is `max over
//! i of (t_i + e * (sum of c_j with t_j >= t_i))`. A slot is charged at its last microsecond (or
//! now), which is no earlier than any of its hits, and all slots from that of hit `i` on hold all
//! hits from `i` on: no term gets smaller. An entry of a moving window leaves later. Fixed and
//! sliding windows know only which window a unit is in, and that is the slot.
//!
//! The units of a bucket matter longer than any number of slots: a bucket in steady use is full
//! because of what came before. So slots that are no longer kept apart are charged to the level
//! they leave behind (`carry`), which every replica computes from the counts that it has. Two
//! carries are merged by the larger, after both stand at the same time (`folded`): each is less
//! than the carry of all counts would be.

use std::sync::Arc;

use tollgate::algorithm::{Act, AnyState, Op};
use tollgate::{Outcome, Receipt, Timestamp};

use super::counts::{Actor, Cell, Counts};
use super::limits::{Held, Prepared};
use super::slot::{Kind, Slot};

/// The counts that were not yet sent to other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untold {
    Nothing,
    /// The counts of this process, from this slot on.
    From(Slot),
    /// Counts of any actor, because units were forgotten.
    All,
}

/// The level that dead slots of a bucket have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carry {
    /// When the bucket is drained.
    pub(crate) until: Timestamp,
    /// Slots that were dead at this time are included.
    pub(crate) folded: Timestamp,
}

/// One key of one limit.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) held: Arc<Held>,
    /// The form and the bytes of the key.
    pub(crate) key: Box<[u8]>,
    pub(crate) counts: Counts,
    pub(crate) carry: Carry,
    pub(crate) untold: Untold,
    /// Whether the entry is in the list of entries with untold counts.
    pub(crate) listed: bool,
    state: Option<AnyState>,
    /// Whether the state reflects all counts.
    derived: bool,
    /// Whether the state was never derived, but stepped by own operations alone. Then receipts
    /// refer to this very state.
    exact: bool,
    /// Units that peers are known to have in the slot that was current when the state was derived.
    known: (Slot, u64),
}

impl Entry {
    pub(crate) fn new(held: Arc<Held>, key: &[u8]) -> Entry {
        Entry {
            held,
            key: key.into(),
            counts: Counts::default(),
            carry: Carry::default(),
            untold: Untold::Nothing,
            listed: false,
            state: None,
            derived: true,
            exact: true,
            known: (Slot { number: 0, span: 1 }, 0),
        }
    }

    /// The time to count at: never before the own newest slot, so that a clock that was set back
    /// keeps counting in that slot.
    fn time(&self, own: Actor, now: Timestamp) -> Timestamp {
        self.counts.newest(own).map_or(now, |slot| slot.start().max(now))
    }

    /// Does one operation.
    pub(crate) fn apply(
        &mut self,
        prepared: &Prepared,
        own: Actor,
        now: Timestamp,
        act: Act,
    ) -> Outcome {
        self.refresh(prepared, own, now);
        let machine = &prepared.rules.machine;
        match act {
            Act::DenyHit(_) => machine.act(&mut self.state, now, act),
            Act::Op(op @ (Op::Refund(_) | Op::RefundUnits(_))) if self.exact => {
                let before = self.state.clone();
                let decision = machine.apply(&mut self.state, now, op);
                if self.state != before {
                    self.give_back(prepared, own, now, op);
                }
                decision
            }
            Act::Op(op @ (Op::Refund(_) | Op::RefundUnits(_))) => {
                self.give_back(prepared, own, now, op);
                self.derived = false;
                self.refresh(prepared, own, now);
                machine.apply(&mut self.state, now, Op::RefundUnits(0))
            }
            Act::Op(Op::Reset) => {
                let decision = machine.apply(&mut self.state, now, Op::Reset);
                self.forget();
                (self.derived, self.exact) = (true, true);
                decision
            }
            Act::Op(_) | Act::TryHit(_) => {
                let decision = machine.act(&mut self.state, now, act);
                self.count(prepared, own, now, act, decision.charged());
                decision
            }
        }
    }

    /// Counts what an operation has charged.
    fn count(&mut self, prepared: &Prepared, own: Actor, now: Timestamp, act: Act, charged: u64) {
        let units = match act {
            Act::Op(Op::Set(units)) => {
                self.forget();
                units.min(tollgate::algorithm::MAX_UNITS)
            }
            _ => charged,
        };
        if units > 0 {
            let slot = prepared.slot(self.time(own, now));
            self.counts.charge(slot, own, units);
            self.tell_from(slot);
        }
        if self.held.kind == Kind::Sliding {
            // Replicas use the windows of the clock. The state of this hit may have opened another
            // one.
            self.derived = false;
        }
    }

    /// Takes a refund out of the own counts. A replica cannot lower the counts of others.
    fn give_back(&mut self, prepared: &Prepared, own: Actor, now: Timestamp, op: Op) {
        let (slots, mut units) = match op {
            Op::Refund(receipt) => (vec![self.slot_of(prepared, &receipt)], receipt.units),
            Op::RefundUnits(units) => (self.own_slots(prepared, own, now), units),
            _ => return,
        };
        for slot in slots {
            let back = self.counts.refund(slot, own, units);
            if back > 0 {
                self.tell_from(slot);
                units -= back;
            }
        }
    }

    /// Whether nothing was done that must be kept.
    pub(crate) fn is_untouched(&self) -> bool {
        self.counts.is_empty() && self.state.is_none()
    }

    /// The slot of a receipt.
    fn slot_of(&self, prepared: &Prepared, receipt: &Receipt) -> Slot {
        match self.held.kind {
            Kind::Fixed => Slot { number: receipt.mark, span: prepared.rules.span },
            Kind::Bucket if receipt.mark == 0 => prepared.slot(receipt.at),
            _ => prepared.slot(Timestamp::from_micros(receipt.mark)),
        }
    }

    /// The own slots from which units without a receipt are given back, the newest first: all that
    /// may still count.
    fn own_slots(&self, prepared: &Prepared, own: Actor, now: Timestamp) -> Vec<Slot> {
        let newest_first = self.counts.cells().iter().rev().filter(|cell| cell.actor == own);
        let slots = newest_first.map(|cell| cell.slot);
        let current = prepared.slot(self.time(own, now));
        match self.held.kind {
            Kind::Fixed => vec![current],
            Kind::Sliding => slots.filter(|slot| slot.number + 1 >= current.number).collect(),
            Kind::Moving | Kind::Bucket => slots.collect(),
        }
    }

    fn forget(&mut self) {
        self.carry.until = Timestamp::EPOCH;
        self.counts.forget();
        self.untold = Untold::All;
    }

    fn tell_from(&mut self, slot: Slot) {
        self.untold = match self.untold {
            Untold::Nothing => Untold::From(slot),
            Untold::From(earlier) => Untold::From(earlier.min(slot)),
            Untold::All => Untold::All,
        };
    }

    /// Returns the counts that were not yet sent, and marks them as sent.
    pub(crate) fn tell(&mut self, own: Actor, now: Timestamp) -> Vec<Cell> {
        self.listed = false;
        let untold = std::mem::replace(&mut self.untold, Untold::Nothing);
        let alive = |cell: &Cell| !cell.slot.is_dead(self.held.kind, now);
        let wanted = |cell: &Cell| match untold {
            Untold::Nothing => false,
            Untold::From(slot) => cell.actor == own && cell.slot >= slot && alive(cell),
            Untold::All => alive(cell),
        };
        self.counts.cells().iter().filter(|cell| wanted(cell)).copied().collect()
    }

    /// Merges a count; true if something was new.
    pub(crate) fn merge(&mut self, cell: Cell, own: Actor) -> bool {
        let merged = self.counts.merge(cell, own);
        if merged.changed {
            self.derived = false;
        }
        if merged.reset {
            self.carry.until = Timestamp::EPOCH;
        }
        if merged.gap {
            self.tell_from(cell.slot);
        }
        merged.changed
    }

    /// Merges the level that a peer's dead slots have left.
    pub(crate) fn merge_carry(&mut self, carry: Carry) {
        if carry.folded > self.carry.folded {
            self.fold(carry.folded);
        }
        if carry.until > self.carry.until {
            self.carry.until = carry.until;
            self.derived = false;
        }
    }

    /// Whether a count of that slot comes too late.
    pub(crate) fn is_past(&self, slot: Slot, now: Timestamp) -> bool {
        slot.is_dead(self.held.kind, self.carry.folded.max(now))
    }

    /// Drops dead slots. Those of a bucket are added to the carried level.
    fn fold(&mut self, time: Timestamp) {
        let bucket = self.held.kind == Kind::Bucket;
        let rules = if bucket { self.held.rules() } else { None };
        for cell in self.counts.take_dead(self.held.kind, time) {
            if let Some(rules) = rules {
                self.carry.until = rules.fold(self.carry.until, &cell);
            }
        }
        if bucket {
            self.carry.folded = self.carry.folded.max(time);
        }
    }

    /// Derives the state from all counts at this time.
    fn refresh(&mut self, prepared: &Prepared, own: Actor, now: Timestamp) {
        let time = self.time(own, now);
        let oldest = self.counts.cells().first();
        if oldest.is_some_and(|cell| cell.slot.is_dead(self.held.kind, time)) {
            self.fold(time);
        }
        if !self.derived {
            self.derive(prepared, own, time);
        }
    }

    fn derive(&mut self, prepared: &Prepared, own: Actor, time: Timestamp) {
        let kind = self.held.kind;
        let current = prepared.slot(time);
        let cells = self.counts.cells();
        let begin = cells.first().map_or(time, |cell| cell.slot.charged_at(kind, time));
        let mut state = prepared.rules.machine.drained_at(self.carry.until, begin);
        let mut known = 0u64;
        let mut ahead = false;
        for &Cell { slot, actor, count } in cells {
            ahead |= slot.start() > time;
            if !slot.counts(kind, time) {
                continue;
            }
            let at = slot.charged_at(kind, time);
            let _ = prepared.rules.machine.apply(&mut state, at, Op::Charge(count.units()));
            if actor != own && slot == current {
                known = known.saturating_add(count.units());
            }
        }
        self.state = state;
        self.exact = false;
        self.known = (current, known);
        // Slots ahead of the clock count differently when their time has come.
        self.derived = !ahead && kind != Kind::Sliding;
    }

    /// Units that peers are known to have in the current slot, for limits where that bounds what
    /// peers may have admitted.
    pub(crate) fn known(&self, prepared: &Prepared, now: Timestamp) -> u64 {
        let (slot, units) = self.known;
        let same = self.held.kind != Kind::Bucket && slot == prepared.slot(now);
        if same { units } else { 0 }
    }

    /// Returns the units of this process that still count, and when the first of them stop
    /// counting.
    pub(crate) fn own_units(
        &self,
        prepared: &Prepared,
        own: Actor,
        now: Timestamp,
    ) -> (u64, Option<Timestamp>) {
        let reach = prepared.rules.reach;
        let matter_until =
            |slot: Slot| Timestamp::from_micros(slot.last().as_micros() + 1).as_micros() + reach;
        let mut cells = self.counts.cells().iter().filter(|cell| {
            cell.actor == own && cell.count.units() > 0 && matter_until(cell.slot) > now.as_micros()
        });
        let first = cells.clone().next().map(|cell| matter_until(cell.slot));
        let units = cells.try_fold(0u64, |sum, cell| sum.checked_add(cell.count.units()));
        (units.unwrap_or(u64::MAX), first.map(Timestamp::from_micros))
    }

    /// Whether nothing of the entry matters any more. Drops dead slots first.
    pub(crate) fn is_over(&mut self, now: Timestamp) -> bool {
        self.fold(now);
        let rules = self.held.rules();
        let state_over = match (&self.state, rules) {
            (Some(state), Some(rules)) if self.derived => {
                rules.machine.fresh_at(Some(state)).is_none_or(|at| at <= now)
            }
            _ => true,
        };
        self.counts.is_empty() && self.carry.until <= now && state_over
    }
}
