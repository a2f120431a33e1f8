//! Decides calls: the step in memory, and whether the answer has to wait for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::{Error, KeyRef, Outcome, Timestamp};

use super::{DiskState, Keeper, Prepared};
use crate::file;
use crate::limits::{Act, lock};
use crate::mark::{Mark, Queued};
use crate::queue::Batch;
use crate::table::{Entry, Lookup, Shard};

/// A decision, and the batches that must be on disk before it may be returned.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) decision: Outcome,
    pub(crate) batch: Option<Arc<Batch>>,
    /// Whether the file had a record of the key before.
    pub(crate) has_record: bool,
}

/// The possible effect of an act on a state, as far as the file is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    /// Adds at most this many units.
    Charge(u64),
    GiveBack,
    Replace,
    /// The part of a limit in a denial: it may push or count, but nothing is admitted.
    Refuse,
}

impl Effect {
    fn of(act: Act, machine: &AnyMachine) -> Effect {
        match act {
            Act::Op(Op::Peek(_)) => Effect::None,
            Act::Op(Op::Hit(units) | Op::Charge(units)) => Effect::Charge(units),
            Act::Op(Op::Take(units)) => Effect::Charge(units.min(machine.capacity())),
            Act::Op(Op::Refund(_) | Op::RefundUnits(_)) => Effect::GiveBack,
            Act::Op(_) => Effect::Replace,
            Act::Refuse(_) => Effect::Refuse,
        }
    }
}

impl Keeper {
    /// One operation, if it can be answered without waiting.
    #[inline]
    pub(crate) fn try_now(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        let lookup = self.table.lookup(&prepared.known, key);
        let now = at.unwrap_or_else(|| self.clock.now());
        let mut shard = self.table.shard_of(&lookup);
        if self.disk() != DiskState::Works {
            return None;
        }
        let machine = &prepared.rule.machine;
        let effect = Effect::of(Act::Op(op), machine);
        // The fast path of nearly all calls: a key in memory, and no wait.
        if let Some(entry) = shard.find(&lookup)
            && entry.state.is_some()
            && (!self.level.waits() || self.passes(entry, machine, effect, now))
        {
            let decision = machine.apply(&mut entry.state, now, op);
            self.note(entry, prepared, &lookup, effect, &decision, false);
            return Some(decision);
        }
        let done = self.act(&mut shard, prepared, &lookup, now, Act::Op(op), false);
        done.ok().flatten().map(|done| done.decision)
    }

    /// One operation.
    pub(crate) fn apply(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        now: Timestamp,
    ) -> Result<Done, Error> {
        let lookup = self.table.lookup(&prepared.known, key);
        let mut shard = self.table.shard_of(&lookup);
        self.answers()?;
        self.must(&mut shard, prepared, &lookup, now, Act::Op(op))
    }

    /// Hits all or none: `parts` are (limit, key, cost).
    pub(crate) fn together(
        &self,
        parts: &[(&Prepared, KeyRef<'_>, u64)],
        now: Timestamp,
    ) -> Result<Vec<Done>, Error> {
        let hits = parts.iter().map(|(prepared, key, cost)| (*prepared, *key, Op::Hit(*cost)));
        self.have_room(hits, now)?;
        let lookups: Vec<Lookup<'_>> = parts
            .iter()
            .map(|(prepared, key, _)| self.table.lookup(&prepared.known, *key))
            .collect();
        let index = |lookup: &Lookup<'_>| self.table.shard_index(lookup.hash);
        let mut indices: Vec<usize> = lookups.iter().map(index).collect();
        indices.sort_unstable();
        indices.dedup();
        let mut shards: Vec<_> = indices.iter().map(|index| self.table.shard(*index)).collect();
        self.answers()?;
        let mut act = |part: usize, act: Act| {
            let at = indices.binary_search(&index(&lookups[part])).unwrap_or_default();
            self.must(&mut shards[at], parts[part].0, &lookups[part], now, act)
        };
        let all = 0..parts.len();
        let mut refused = false;
        for part in all.clone() {
            refused |= !act(part, Act::Op(Op::Peek(parts[part].2)))?.decision.allowed();
        }
        let mut hits: Vec<Done> = Vec::with_capacity(parts.len());
        for part in all.clone().take_while(|_| !refused) {
            let hit = act(part, Act::Op(Op::Hit(parts[part].2)))?;
            hits.push(hit);
        }
        if let Some(lost) = hits.iter().position(|hit| !hit.decision.allowed()) {
            // Only on states that keys without an entry share: another caller came between.
            for part in (0..hits.len()).filter(|part| *part != lost) {
                let receipt = hits[part].decision.receipt();
                let _ = act(part, Act::Op(Op::Refund(receipt)))?;
            }
            refused = true;
        }
        if refused {
            return all.map(|part| act(part, Act::Refuse(parts[part].2))).collect();
        }
        Ok(hits)
    }

    /// Forgets a key; true if its state was not fresh.
    pub(crate) fn reset(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        now: Timestamp,
    ) -> Result<(bool, Option<Arc<Batch>>), Error> {
        let lookup = self.table.lookup(&prepared.known, key);
        let mut shard = self.table.shard_of(&lookup);
        self.answers()?;
        if shard.find(&lookup).is_none() && self.read(&mut shard, prepared, &lookup, now)?.is_none()
        {
            return Ok((false, None));
        }
        let Some(entry) = shard.find(&lookup) else { return Ok((false, None)) };
        let fresh_at = prepared.rule.machine.fresh_at(entry.state.as_ref());
        entry.state = None;
        entry.mark.begin_anew(now);
        let batch = self.level.waits().then(|| self.queue.now(&lookup, entry));
        self.queue.soon(&lookup, entry, self.level.later());
        Ok((fresh_at.is_some_and(|at| at > now), batch))
    }

    /// [`act`](Keeper::act) for calls that may wait.
    fn must(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
        act: Act,
    ) -> Result<Done, Error> {
        let done = self.act(shard, prepared, lookup, now, act, true)?;
        done.ok_or_else(|| Error::unavailable("it would have to wait"))
    }

    /// One act on a key whose shard is locked. Without `may_wait`, an act that would have to wait
    /// does nothing and returns no answer.
    fn act(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
        act: Act,
        may_wait: bool,
    ) -> Result<Option<Done>, Error> {
        if self.disk() == DiskState::Full {
            self.has_room(shard, prepared, lookup, now, act)?;
        }
        let floor = shard.floor;
        match shard.find(lookup) {
            Some(entry) => Ok(self.act_on(entry, floor, prepared, lookup, now, act, may_wait)),
            None => self.act_on_new(shard, prepared, lookup, now, act, may_wait),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they describe one call on one key")]
    fn act_on(
        &self,
        entry: &mut Entry,
        floor: Timestamp,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
        act: Act,
        may_wait: bool,
    ) -> Option<Done> {
        let machine = &prepared.rule.machine;
        let now = if entry.state.is_some() { now } else { now.max(floor) };
        let effect = Effect::of(act, machine);
        let waits = self.level.waits()
            && !self.passes(entry, machine, effect, now)
            && !is_refused(entry, machine, act, now);
        if waits && !may_wait {
            return None;
        }
        let has_record = entry.mark.has_record;
        let decision = act.on(machine, &mut entry.state, now);
        let batch = self.note(entry, prepared, lookup, effect, &decision, waits);
        Some(Done { decision, batch, has_record })
    }

    /// Whether the answer may be returned before anything else is written.
    #[inline]
    fn passes(
        &self,
        entry: &mut Entry,
        machine: &AnyMachine,
        effect: Effect,
        now: Timestamp,
    ) -> bool {
        let reserves = self.level.reserves_for().is_some();
        match effect {
            Effect::None | Effect::Refuse => true,
            Effect::GiveBack => reserves,
            Effect::Replace => false,
            Effect::Charge(_) if !reserves => false,
            Effect::Charge(units) => {
                if entry.mark.covers(units, now) {
                    return true;
                }
                let is_fresh = machine.fresh_at(entry.state.as_ref()).is_none_or(|at| at <= now);
                if is_fresh {
                    entry.mark.begin_anew(now);
                }
                is_fresh
            }
        }
    }

    /// Notes an act for the file.
    #[inline]
    fn note(
        &self,
        entry: &mut Entry,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        effect: Effect,
        decision: &Outcome,
        waits: bool,
    ) -> Option<Arc<Batch>> {
        let charged = decision.charged();
        let changes = match effect {
            Effect::None => return None,
            Effect::Charge(_) | Effect::Refuse => charged > 0 || prepared.pushes,
            Effect::GiveBack => true,
            Effect::Replace => {
                entry.mark.replaced(decision.now());
                true
            }
        };
        if !changes {
            return None;
        }
        entry.mark.charged(charged, decision.now());
        if waits {
            return Some(self.queue.now(lookup, entry));
        }
        if entry.mark.queued == Queued::No {
            let reserved = self.level.reserves_for().is_some()
                && matches!(effect, Effect::Charge(_))
                && !entry.mark.is_new()
                && !prepared.pushes;
            if !reserved {
                self.queue.soon(lookup, entry, self.level.later());
            } else if entry.mark.runs_low() {
                self.queue.soon(lookup, entry, self.level.soon());
            }
        }
        None
    }

    #[cold]
    fn act_on_new(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
        act: Act,
        may_wait: bool,
    ) -> Result<Option<Done>, Error> {
        if self.may_be_in_the_file(lookup) {
            if !may_wait {
                return Ok(None);
            }
            let floor = shard.floor;
            if let Some(entry) = self.read(shard, prepared, lookup, now)? {
                return Ok(self.act_on(entry, floor, prepared, lookup, now, act, may_wait));
            }
        }
        let machine = &prepared.rule.machine;
        let start = now.max(shard.floor);
        let effect = Effect::of(act, machine);
        let waits = match effect {
            Effect::None | Effect::Refuse | Effect::GiveBack => false,
            Effect::Replace => self.level.waits(),
            // A cost above the capacity never passes.
            Effect::Charge(units) if matches!(act, Act::Op(Op::Hit(_))) => {
                self.level.is_sync() && units <= machine.capacity()
            }
            Effect::Charge(_) => self.level.is_sync(),
        };
        if waits && !may_wait {
            return Ok(None);
        }
        let in_overflow = || {
            self.table.overflowed.fetch_add(1, Ordering::Relaxed);
            let decision = lookup.known.overflow().act(|state| act.on(machine, state, start));
            Ok(Some(Done { decision, batch: None, has_record: false }))
        };
        if self.table.is_full() {
            return in_overflow();
        }
        let mut state = lookup.known.overflow().copy(machine, start);
        let was_there = state.is_some();
        let decision = act.on(machine, &mut state, start);
        let changes = !was_there || !matches!(effect, Effect::None);
        if state.is_none() || !changes {
            return Ok(Some(Done { decision, batch: None, has_record: false }));
        }
        if !self.table.take_room() {
            return in_overflow();
        }
        let entry = self.table.insert(shard, *lookup, state, Mark::new(start));
        let batch = self.note(entry, prepared, lookup, effect, &decision, waits);
        Ok(Some(Done { decision, batch, has_record: false }))
    }

    /// [`has_room`](Keeper::has_room) for several operations, before the first of them changes
    /// anything.
    pub(crate) fn have_room<'k>(
        &self,
        mut ops: impl Iterator<Item = (&'k Prepared, KeyRef<'k>, Op)>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.disk() != DiskState::Full {
            return Ok(());
        }
        ops.try_for_each(|(prepared, key, op)| {
            let lookup = self.table.lookup(&prepared.known, key);
            let mut shard = self.table.shard_of(&lookup);
            self.has_room(&mut shard, prepared, &lookup, now, Act::Op(op))
        })
    }

    /// An error if the disk is full, and the act needs a record where the file has none to replace.
    #[cold]
    fn has_room(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
        act: Act,
    ) -> Result<(), Error> {
        let machine = &prepared.rule.machine;
        if !matches!(Effect::of(act, machine), Effect::Charge(1..) | Effect::Replace) {
            return Ok(());
        }
        if shard.find(lookup).is_none() {
            let _ = self.read(shard, prepared, lookup, now)?;
        }
        let is_refused = match (shard.find(lookup), act) {
            (Some(entry), _) if entry.mark.has_record => return Ok(()),
            (Some(entry), _) => is_refused(entry, machine, act, now),
            (None, Act::Op(Op::Hit(cost))) => cost > machine.capacity(),
            (None, _) => false,
        };
        if is_refused { Ok(()) } else { Err(self.no_room()) }
    }

    fn may_be_in_the_file(&self, lookup: &Lookup<'_>) -> bool {
        let prefix = lookup.known.place.prefix();
        self.inherits
            && lookup.known.number().is_some()
            && (self.clearing.load(Ordering::Relaxed) == 0
                || !lock(&self.clears).iter().any(|cleared| prefix.starts_with(cleared)))
    }

    /// Reads a key from the file into memory, if it is there.
    fn read<'s>(
        &self,
        shard: &'s mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
    ) -> Result<Option<&'s mut Entry>, Error> {
        if !self.may_be_in_the_file(lookup) {
            return Ok(None);
        }
        let Some(number) = lookup.known.number() else { return Ok(None) };
        let Some(record) = self.file.read(&file::name(number, lookup.key))? else {
            return Ok(None);
        };
        let mut mark = Mark::read(&record);
        let state = record.restored(&prepared.rule.machine, now);
        if state.is_none() {
            mark.begin_anew(now);
        }
        self.table.make_room();
        Ok(Some(self.table.insert(shard, *lookup, state, mark)))
    }
}

/// Whether it is a hit that is denied. A denial admits nothing, so it need not wait for the disk.
fn is_refused(entry: &mut Entry, machine: &AnyMachine, act: Act, now: Timestamp) -> bool {
    match act {
        Act::Op(Op::Hit(cost)) => !machine.apply(&mut entry.state, now, Op::Peek(cost)).allowed(),
        Act::Op(Op::Take(cost)) => {
            cost > 0 && machine.apply(&mut entry.state, now, Op::Peek(1)).remaining() == 0
        }
        _ => false,
    }
}
