//! Decides calls: the step in memory, and whether the answer has to wait for the disk.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate::algorithm::{Act, Aging, AnyMachine, Op, hit_together};
use tollgate::keyed::lock;
use tollgate::shared::HitItem;
use tollgate::{Error, KeyRef, Outcome, Timestamp};

use super::{DiskState, Keeper, Prepared};
use crate::file;
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

impl Borrow<Outcome> for Done {
    fn borrow(&self) -> &Outcome {
        &self.decision
    }
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
    Deny,
}

/// Whether a crash right after an answer could forget what the answer promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    /// The records on disk cover the act.
    Covered,
    /// The state was fresh before the act, so the mark of the key begins anew and covers it.
    CoveredAfterRenewal,
    /// A new record must be on disk before the answer is returned.
    MustWait,
}

impl Effect {
    fn of(act: Act, machine: &AnyMachine) -> Effect {
        match act {
            Act::Op(Op::Peek(_)) => Effect::None,
            Act::Op(Op::Hit(units) | Op::Charge(units)) | Act::TryHit(units) => {
                Effect::Charge(units)
            }
            Act::Op(Op::Take(units)) => Effect::Charge(units.min(machine.capacity())),
            Act::Op(Op::Refund(_) | Op::RefundUnits(_)) => Effect::GiveBack,
            Act::Op(Op::Set(_) | Op::Reset) => Effect::Replace,
            Act::DenyHit(_) => Effect::Deny,
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
        if op == Op::Reset {
            // The record in the file has to go as well.
            return None;
        }
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
            && let coverage = self.coverage(entry, machine, effect, now)
            && coverage != Coverage::MustWait
        {
            if coverage == Coverage::CoveredAfterRenewal {
                entry.mark.begin_anew(now);
            }
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
        if op == Op::Reset {
            return self.reset(&mut shard, prepared, &lookup, now);
        }
        self.must(&mut shard, prepared, &lookup, now, Act::Op(op))
    }

    /// Hits all or none.
    pub(crate) fn together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        now: Timestamp,
    ) -> Result<Vec<Done>, Error> {
        let rooms = hits.iter().map(|hit| (hit.prepared, hit.key, Op::Hit(hit.cost)));
        self.have_room(rooms, now)?;
        let lookups: Vec<Lookup<'_>> =
            hits.iter().map(|hit| self.table.lookup(&hit.prepared.known, hit.key)).collect();
        let index = |lookup: &Lookup<'_>| self.table.shard_index(lookup.hash);
        let mut indices: Vec<usize> = lookups.iter().map(index).collect();
        indices.sort_unstable();
        indices.dedup();
        let mut shards: Vec<_> = indices.iter().map(|index| self.table.shard(*index)).collect();
        self.answers()?;
        hit_together(hits.iter().map(|hit| hit.prepared.rule.machine.part(hit.cost)), |hit, act| {
            let at = indices.binary_search(&index(&lookups[hit])).unwrap_or_default();
            self.must(&mut shards[at], hits[hit].prepared, &lookups[hit], now, act)
        })
    }

    /// Forgets a key, in memory and in the file.
    fn reset(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
    ) -> Result<Done, Error> {
        let machine = &prepared.rule.machine;
        if shard.find(lookup).is_none() {
            self.read(shard, prepared, lookup, now)?;
        }
        let Some(entry) = shard.find(lookup) else {
            let decision = machine.apply(&mut None, now, Op::Reset);
            return Ok(Done { decision, batch: None, has_record: false });
        };
        let decision = machine.apply(&mut entry.state, now, Op::Reset);
        entry.mark.begin_anew(now);
        let batch = self.level.waits().then(|| self.queue.now(lookup, entry));
        self.queue.soon(lookup, entry, self.level.later());
        // Removing a record needs no room.
        Ok(Done { decision, batch, has_record: true })
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
        done.ok_or_else(|| Error::unavailable("the operation would have to wait for the disk"))
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
        let coverage = self.coverage(entry, machine, effect, now);
        let waits = coverage == Coverage::MustWait && !is_refused(entry, machine, act, now);
        if waits && !may_wait {
            return None;
        }
        if coverage == Coverage::CoveredAfterRenewal {
            entry.mark.begin_anew(now);
        }
        let has_record = entry.mark.has_record;
        let decision = machine.act(&mut entry.state, now, act);
        let batch = self.note(entry, prepared, lookup, effect, &decision, waits);
        Some(Done { decision, batch, has_record })
    }

    /// Whether the answer may be returned before anything else is written.
    #[inline]
    fn coverage(
        &self,
        entry: &Entry,
        machine: &AnyMachine,
        effect: Effect,
        now: Timestamp,
    ) -> Coverage {
        let reserves = self.level.reserves_for().is_some();
        let covered = match effect {
            _ if !self.level.waits() => true,
            Effect::None | Effect::Deny => true,
            Effect::GiveBack => reserves,
            Effect::Replace => false,
            Effect::Charge(_) if !reserves || machine.aging() == Aging::Never => false,
            Effect::Charge(units) if entry.mark.covers(units, now) => true,
            Effect::Charge(_) => {
                let fresh_at = machine.fresh_at(entry.state.as_ref());
                if fresh_at.is_none_or(|at| at <= now) {
                    return Coverage::CoveredAfterRenewal;
                }
                false
            }
        };
        if covered { Coverage::Covered } else { Coverage::MustWait }
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
            Effect::Charge(_) | Effect::Deny => charged > 0 || prepared.pushes,
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
            Effect::None | Effect::Deny | Effect::GiveBack => false,
            Effect::Replace => self.level.waits(),
            // A cost above the capacity never passes.
            Effect::Charge(units) if matches!(act, Act::Op(Op::Hit(_)) | Act::TryHit(_)) => {
                self.level.is_sync() && units <= machine.capacity()
            }
            Effect::Charge(_) => self.level.is_sync(),
        };
        if waits && !may_wait {
            return Ok(None);
        }
        let in_overflow = || {
            self.table.count.overflowed.fetch_add(1, Ordering::Relaxed);
            let decision = lookup.known.overflow().act(machine, start, act);
            Ok(Some(Done { decision, batch: None, has_record: false }))
        };
        if self.table.count.is_full() {
            return in_overflow();
        }
        let mut state = lookup.known.overflow().copy(machine, start);
        let was_there = state.is_some();
        let decision = machine.act(&mut state, start, act);
        let changes = !was_there || !matches!(effect, Effect::None);
        if state.is_none() || !changes {
            return Ok(Some(Done { decision, batch: None, has_record: false }));
        }
        if !self.table.count.take() {
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
        let needs_record =
            matches!(Effect::of(act, machine), Effect::Charge(1..) | Effect::Replace);
        if !needs_record || act == Act::Op(Op::Reset) {
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
        self.table.count.keys.fetch_add(1, Ordering::Relaxed);
        Ok(Some(self.table.insert(shard, *lookup, state, mark)))
    }
}

/// Whether it is a hit that is denied. A denial admits nothing, so it need not wait for the disk.
fn is_refused(entry: &mut Entry, machine: &AnyMachine, act: Act, now: Timestamp) -> bool {
    match act {
        Act::Op(Op::Hit(cost)) | Act::TryHit(cost) => {
            !machine.apply(&mut entry.state, now, Op::Peek(cost)).allowed()
        }
        Act::Op(Op::Take(cost)) => {
            cost > 0 && machine.apply(&mut entry.state, now, Op::Peek(1)).remaining() == 0
        }
        _ => false,
    }
}
