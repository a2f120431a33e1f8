//! The decision of one call on one hold.

use std::convert::Infallible;
use std::time::Duration;

use super::call::{HoldCall, HoldItem};
use super::id::HoldId;
use super::record::{HeldItem, HeldPart, HoldPhase, HoldRecord, MAX_RECEIPTS, ttl_of};
use super::reply::{HoldConflict, HoldItemReply, HoldReply, HoldStatus};
use crate::algorithm::concurrent::{Concurrent, ConcurrentState};
use crate::algorithm::{Act, AnyMachine, AnyState, Op, Part, Step, hit_together};
use crate::error::Error;
use crate::outcome::{Outcome, Receipt};
use crate::time::{Timestamp, micros_up};

/// The settings of a store that a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldTerms {
    /// The time for which a new record is kept after the end of its hold.
    pub retain: Duration,
    /// The time for which a slot counts beyond the deadline of its hold. It is zero if the store
    /// has a clock of its own, and otherwise the largest difference between the clocks of its
    /// callers.
    pub grace: Duration,
}

impl Default for HoldTerms {
    fn default() -> Self {
        HoldTerms { retain: super::DEFAULT_RETAIN, grace: Duration::ZERO }
    }
}

/// Decides one call on one hold, and changes its record and the states of its parts in place. This
/// defines the answer of every store: see the [module](super).
///
/// `record` is the record of this hold if the store has one. `states` are those of
/// [`HoldCall::parts`], in that order.
///
/// # Errors
/// Fails if a value of the call breaks a rule, or if the number of figures or states is not that of
/// the items or parts. Nothing has changed then.
///
/// See the example of [`HoldRecord`].
pub fn decide(
    id: &HoldId,
    call: &HoldCall,
    record: &mut Option<HoldRecord>,
    states: &mut [Option<AnyState>],
    now: Timestamp,
    terms: &HoldTerms,
) -> Result<HoldReply, Error> {
    call.check()?;
    record.take_if(|record| record.forget_at() <= now);
    let parts = call.parts(record.as_ref());
    if parts.len() != states.len() {
        return Err(Error::request(format!(
            "{} states for {} parts of a hold",
            states.len(),
            parts.len()
        )));
    }
    let part = |part: &super::HoldPart<'_>| (part.item, AnyMachine::new(part.limit));
    let parts = parts.iter().map(part).collect();
    let grace = micros_up(terms.grace);
    let mut parts = Parts { parts, states, now, holder: None, id, grace };
    let Some(record) = record else {
        let HoldCall::Reserve { items, ttl } = call else {
            return Ok(reply(now, HoldStatus::Unknown));
        };
        let (reply, new) = reserve(&mut parts, items, ttl_of(items, *ttl), terms.retain);
        *record = new;
        return Ok(reply);
    };
    match call {
        HoldCall::Reserve { items, .. } => Ok(repeated(&mut parts, items, record)),
        HoldCall::LookUp => Ok(known(record, now)),
        _ if record.phase == HoldPhase::Opening => Ok(known(record, now)),
        HoldCall::Settle(figures) => {
            check_count(figures, record)?;
            Ok(settle(&mut parts, record, figures))
        }
        HoldCall::Grow(_) | HoldCall::Extend(_) if !record.is_open(now) => Ok(known(record, now)),
        HoldCall::Grow(totals) => {
            check_count(totals, record)?;
            Ok(grow(&mut parts, record, totals))
        }
        HoldCall::Extend(ttl) => Ok(extend(&mut parts, record, ttl.map_or(record.ttl, micros_up))),
    }
}

fn check_count(figures: &[Option<u64>], record: &HoldRecord) -> Result<(), Error> {
    let (figures, items) = (figures.len(), record.items.len());
    if figures <= items {
        return Ok(());
    }
    Err(Error::request(format!("{figures} figures: the hold has {items} items")))
}

/// The parts of a hold and their states.
struct Parts<'a> {
    /// The index of the item, and the machine.
    parts: Vec<(usize, AnyMachine)>,
    states: &'a mut [Option<AnyState>],
    now: Timestamp,
    id: &'a HoldId,
    /// The number of this hold among the holders of a concurrency limit, once it is needed.
    holder: Option<u128>,
    grace: u64,
}

impl Parts<'_> {
    fn act(&mut self, part: usize, act: Act) -> Outcome {
        self.parts[part].1.act(&mut self.states[part], self.now, act)
    }

    /// Calls `f` with the concurrency limit of a part and its state, and the number of this hold
    /// among its holders. `None` if the part is another limit.
    fn with_slots<R>(
        &mut self,
        part: usize,
        f: impl FnOnce(&Concurrent, &mut Option<ConcurrentState>, u128) -> R,
    ) -> Option<R> {
        let AnyMachine::Concurrent(slots) = &self.parts[part].1 else { return None };
        let holder = *self.holder.get_or_insert_with(|| self.id.holder());
        let state = &mut self.states[part];
        let mut inner = match state.take() {
            Some(AnyState::Concurrent(inner)) => Some(inner),
            _ => None,
        };
        let result = f(slots, &mut inner, holder);
        *state = inner.map(AnyState::Concurrent);
        Some(result)
    }

    /// Hits all parts or none. `costs` has a cost for each part, and `None` for a part that is not
    /// hit. A new holder gets `deadline`, a holder that has units keeps its own.
    fn hit(&mut self, costs: &[Option<u64>], deadline: Timestamp) -> (bool, Vec<Outcome>) {
        let hit: Vec<usize> = (0..costs.len()).filter(|part| costs[*part].is_some()).collect();
        let part = |part: &usize| self.parts[*part].1.part(costs[*part].unwrap_or_default());
        let all: Vec<Part> = hit.iter().map(part).collect();
        let Ok(outcomes): Result<Vec<Outcome>, Infallible> = hit_together(
            all.iter().copied(),
            |index, act| Ok(self.part(hit[index], act, deadline)),
        );
        let allowed = outcomes.iter().all(Outcome::allowed);
        let mut outcomes = outcomes.into_iter();
        let outcome = |part: usize| match costs[part] {
            Some(_) => outcomes.next(),
            None => None,
        };
        let found: Vec<Option<Outcome>> = (0..costs.len()).map(outcome).collect();
        let all = found.into_iter().enumerate();
        (allowed, all.map(|(part, found)| found.unwrap_or_else(|| self.peek(part))).collect())
    }

    /// Executes a step of [`hit_together`] on one part.
    fn part(&mut self, part: usize, act: Act, deadline: Timestamp) -> Outcome {
        let (now, machine) = (self.now, self.parts[part].1);
        let until = deadline.plus(self.grace);
        let taken = self.with_slots(part, |slots, state, holder| {
            let (cost, takes) = match act {
                Act::TryHit(cost) => (cost, true),
                Act::DenyHit(cost) | Act::Op(Op::Peek(cost)) => (cost, false),
                // The states are not shared during the decision, so that nothing is taken back.
                Act::Op(_) => (0, false),
            };
            let fits = slots.has_room(state.as_ref(), now, cost);
            let own = state.as_ref().and_then(|state| state.units_of(holder, now));
            let allowed = match own {
                _ if !takes => fits,
                Some(own) => slots.resize(state, now, holder, own.saturating_add(cost)),
                None => slots.acquire(state, now, holder, cost, until).is_some(),
            };
            let charged = if takes && allowed { cost } else { 0 };
            Step { allowed, cost, charged, changed: charged > 0 }
        });
        match taken {
            Some(step) => machine.decision(self.states[part].as_ref(), now, step),
            None => self.act(part, act),
        }
    }

    fn peek(&mut self, part: usize) -> Outcome {
        self.act(part, Act::Op(Op::Peek(0)))
    }

    /// Returns the figures of all parts as they are now.
    fn peeks(&mut self) -> Vec<Outcome> {
        (0..self.parts.len()).map(|part| self.peek(part)).collect()
    }

    /// Returns whether the hold still has all its slots.
    fn has_all_slots(&mut self) -> bool {
        let now = self.now;
        (0..self.parts.len()).all(|part| {
            let has = |slots: &Concurrent, state: &mut Option<ConcurrentState>, holder| {
                slots.holds(state.as_ref(), now, holder)
            };
            self.with_slots(part, has).unwrap_or(true)
        })
    }

    /// Returns the parts of each item, in order.
    fn parts_of(&self, item: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.parts.partition_point(|(of, _)| *of < item);
        let end = self.parts.partition_point(|(of, _)| *of <= item);
        first..end
    }

    /// Returns what a granted part was charged.
    fn held(&self, part: usize, outcome: &Outcome) -> HeldPart {
        let receipt = outcome.receipt();
        match self.parts[part].1 {
            AnyMachine::Concurrent(_) => HeldPart { receipts: vec![], fence: Some(receipt.mark) },
            _ if receipt.units == 0 => HeldPart::default(),
            _ => HeldPart { receipts: vec![receipt], fence: None },
        }
    }
}

fn reserve(
    parts: &mut Parts<'_>,
    items: &[HoldItem],
    ttl: u64,
    retain: Duration,
) -> (HoldReply, Option<HoldRecord>) {
    let units: Vec<u64> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let capacity = |part: usize| parts.parts[part].1.capacity();
            let smallest = parts.parts_of(index).map(capacity).min();
            smallest.filter(|_| item.clamp).map_or(item.units, |smallest| item.units.min(smallest))
        })
        .collect();
    let costs: Vec<_> = parts.parts.iter().map(|(item, _)| Some(units[*item])).collect();
    let deadline = parts.now.plus(ttl);
    let (allowed, outcomes) = parts.hit(&costs, deadline);
    if !allowed {
        let item = |units: &u64| HoldItemReply { units: *units, fence: None, overdrawn: false };
        let items = units.iter().map(item).collect();
        let denied = reply(parts.now, HoldStatus::Denied);
        return (HoldReply { items, outcomes, ..denied }, None);
    }
    let held = |(index, item): (usize, &HoldItem)| HeldItem {
        policy: item.policy.clone(),
        key: item.key.clone(),
        asked: item.units,
        clamp: item.clamp,
        units: units[index],
        overdrawn: false,
        parts: parts.parts_of(index).map(|part| parts.held(part, &outcomes[part])).collect(),
    };
    let record = HoldRecord {
        phase: HoldPhase::Open,
        deadline,
        ttl,
        retain: micros_up(retain),
        items: items.iter().enumerate().map(held).collect(),
    };
    (HoldReply { outcomes, ..known(&record, parts.now) }, Some(record))
}

/// Answers a reservation whose id is known.
fn repeated(parts: &mut Parts<'_>, items: &[HoldItem], record: &HoldRecord) -> HoldReply {
    let conflict = |conflict| reply(parts.now, HoldStatus::Conflict(conflict));
    match record.phase {
        HoldPhase::Opening => return conflict(HoldConflict::Opening),
        HoldPhase::Open if record.is_open(parts.now) && !record.is_of(items) => {
            return conflict(HoldConflict::OtherItems);
        }
        _ => {}
    }
    let known = known(record, parts.now);
    let outcomes = if known.is_open() { parts.peeks() } else { Vec::new() };
    HoldReply { repeated: true, outcomes, ..known }
}

fn grow(parts: &mut Parts<'_>, record: &mut HoldRecord, totals: &[Option<u64>]) -> HoldReply {
    let more = |(index, item): (usize, &HeldItem)| {
        let total = totals.get(index).copied().flatten()?;
        total.checked_sub(item.units).filter(|more| *more > 0)
    };
    let more: Vec<Option<u64>> = record.items.iter().enumerate().map(more).collect();
    if !parts.has_all_slots() {
        return HoldReply { status: HoldStatus::SlotGone, ..known(record, parts.now) };
    }
    if more.iter().all(Option::is_none) {
        return HoldReply { repeated: true, outcomes: parts.peeks(), ..known(record, parts.now) };
    }
    let costs: Vec<_> = parts.parts.iter().map(|(item, _)| more[*item]).collect();
    let (allowed, outcomes) = parts.hit(&costs, record.deadline);
    if !allowed {
        return HoldReply { status: HoldStatus::Denied, outcomes, ..known(record, parts.now) };
    }
    for (index, item) in record.items.iter_mut().enumerate() {
        let Some(more) = more[index] else { continue };
        item.units += more;
        for (held, part) in item.parts.iter_mut().zip(parts.parts_of(index)) {
            for receipt in parts.held(part, &outcomes[part]).receipts {
                keep(&mut held.receipts, receipt, &parts.parts[part].1);
            }
        }
    }
    HoldReply { outcomes, ..known(record, parts.now) }
}

/// Adds a receipt to those of a part. Receipts that a refund cannot distinguish become one.
fn keep(receipts: &mut Vec<Receipt>, new: Receipt, machine: &AnyMachine) {
    let same =
        |old: &&mut Receipt| old.mark == new.mark && (old.at == new.at || !machine.finds_by_time());
    if let Some(old) = receipts.last_mut().filter(same) {
        old.units = old.units.saturating_add(new.units);
        return;
    }
    if receipts.len() == MAX_RECEIPTS {
        receipts.remove(0);
    }
    receipts.push(new);
}

fn settle(parts: &mut Parts<'_>, record: &mut HoldRecord, figures: &[Option<u64>]) -> HoldReply {
    let figure =
        |index: usize, item: &HeldItem| figures.get(index).copied().flatten().unwrap_or(item.units);
    if let HoldPhase::Settled(_) = record.phase {
        let same =
            record.items.iter().enumerate().all(|(index, item)| figure(index, item) == item.units);
        if !same {
            let conflict = HoldStatus::Conflict(HoldConflict::OtherFigures);
            return HoldReply { status: conflict, ..known(record, parts.now) };
        }
        return HoldReply { repeated: true, outcomes: parts.peeks(), ..known(record, parts.now) };
    }
    for (index, item) in record.items.iter_mut().enumerate() {
        let took = figure(index, item);
        for (held, part) in item.parts.iter_mut().zip(parts.parts_of(index)) {
            let receipts = std::mem::take(&mut held.receipts);
            if parts.with_slots(part, Concurrent::release).is_some() {
                continue;
            }
            if took > item.units {
                let more = took - item.units;
                item.overdrawn |= !parts.act(part, Act::Op(Op::Peek(more))).allowed();
                parts.act(part, Act::Op(Op::Charge(more)));
            }
            let mut back = item.units.saturating_sub(took);
            for receipt in receipts.into_iter().rev() {
                let receipt = receipt.at_most(back);
                back -= receipt.units;
                parts.act(part, Act::Op(Op::Refund(receipt)));
            }
        }
        item.units = took;
    }
    record.phase = HoldPhase::Settled(parts.now);
    HoldReply { outcomes: parts.peeks(), ..known(record, parts.now) }
}

fn extend(parts: &mut Parts<'_>, record: &mut HoldRecord, ttl: u64) -> HoldReply {
    if !parts.has_all_slots() {
        return HoldReply { status: HoldStatus::SlotGone, ..known(record, parts.now) };
    }
    let now = parts.now;
    record.deadline = now.plus(ttl);
    let until = record.deadline.plus(parts.grace);
    for part in 0..parts.parts.len() {
        let _ =
            parts.with_slots(part, |slots, state, holder| slots.extend(state, now, holder, until));
    }
    HoldReply { outcomes: parts.peeks(), ..known(record, now) }
}

fn reply(now: Timestamp, status: HoldStatus) -> HoldReply {
    HoldReply { status, repeated: false, now, deadline: None, items: vec![], outcomes: vec![] }
}

/// Returns what the record says about the hold.
fn known(record: &HoldRecord, now: Timestamp) -> HoldReply {
    let status = match record.phase {
        HoldPhase::Opening => HoldStatus::Conflict(HoldConflict::Opening),
        HoldPhase::Settled(_) => HoldStatus::Settled,
        HoldPhase::Open if record.is_open(now) => HoldStatus::Open,
        HoldPhase::Open => HoldStatus::Expired,
    };
    let item = |item: &HeldItem| HoldItemReply {
        units: item.units,
        fence: item.parts.iter().filter_map(|part| part.fence).max(),
        overdrawn: item.overdrawn,
    };
    HoldReply {
        deadline: Some(record.deadline),
        items: record.items.iter().map(item).collect(),
        ..reply(now, status)
    }
}
