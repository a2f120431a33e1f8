//! What the callers and the writer share: keys in memory, the file, and what is to be written.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::shared::Place;
use tollgate::{Algorithm, Clock, Decision, Error, KeyRef, Limit, Timestamp};

use crate::file::{self, File};
use crate::level::Keeping;
use crate::limits::{Act, Known, Limits, Rule, lock};
use crate::mark::{Mark, Queued};
use crate::queue::{Batch, Goal, Queue, Walk};
use crate::table::{Entry, Lookup, Shard, Table};

/// A limit as a [`Durable`](crate::Durable) store holds it.
#[derive(Clone, Debug)]
pub struct Prepared {
    known: Arc<Known>,
    rule: Rule,
    /// An attempt that is refused changes the state.
    pushes: bool,
}

impl Prepared {
    pub(crate) fn is(&self, other: &Prepared) -> bool {
        Arc::ptr_eq(&self.known, &other.known)
    }

    pub(crate) fn prefix(&self) -> &[u8] {
        self.known.place.prefix()
    }
}

/// A decision, and what has to be on disk before it may be told.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) decision: Decision,
    pub(crate) batch: Option<Arc<Batch>>,
}

/// What an act may do to a state, as far as the file is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    /// Adds at most so many units.
    Charge(u64),
    GiveBack,
    Replace,
    /// The part in a refusal: it may push or count, and nobody is let through for it.
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

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) level: Keeping,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) table: Table,
    pub(crate) limits: Limits,
    pub(crate) file: File,
    pub(crate) queue: Queue,
    pub(crate) clean_period: Duration,
    /// Whether the file had records when it was opened: then a key that is not in memory may be there.
    inherits: bool,
    /// No call is answered any more: the store is closed, or its disk has failed and its level needs one.
    refuses: AtomicBool,
    trouble: Mutex<Trouble>,
    /// What is being cleared: the file is not asked for it.
    clears: Mutex<Vec<Box<[u8]>>>,
    clearing: AtomicUsize,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Why the last batch could not be written.
    disk: Option<Error>,
    closed: Option<Result<(), Error>>,
    is_closed: bool,
}

impl Keeper {
    pub(crate) fn new(
        level: Keeping,
        clock: Arc<dyn Clock>,
        max_keys: usize,
        clean_period: Duration,
        file: File,
    ) -> Result<Keeper, Error> {
        Ok(Keeper {
            level,
            clock,
            table: Table::new(max_keys),
            limits: Limits::default(),
            inherits: file.len()? > 0,
            file,
            queue: Queue::new(),
            clean_period,
            refuses: AtomicBool::new(false),
            trouble: Mutex::default(),
            clears: Mutex::default(),
            clearing: AtomicUsize::new(0),
        })
    }

    pub(crate) fn prepare(&self, namespace: &str, limit: &Limit) -> Prepared {
        let rule = Rule::new(limit, self.level.reserves_for());
        let place = Place::new(namespace, limit);
        let known = self.limits.entry(place, rule, |place| self.file.number(place.prefix()));
        Prepared { known, rule, pushes: limit.algorithm() == Algorithm::ElasticWindow }
    }

    /// One operation, if it can be answered without waiting.
    #[inline]
    pub(crate) fn at_once(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Decision> {
        let lookup = self.table.lookup(&prepared.known, key);
        let now = at.unwrap_or_else(|| self.clock.now());
        let mut shard = self.table.shard_of(&lookup);
        if self.refuses.load(Ordering::Relaxed) {
            return None;
        }
        let machine = &prepared.rule.machine;
        let effect = Effect::of(Act::Op(op), machine);
        // The way of nearly all: a key in memory, and no wait. All others take the long way.
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
            // Only on states that keys without an entry share: somebody else came between.
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

    /// Forgets a key; whether its state was not fresh.
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

    /// Forgets all keys whose names begin so.
    pub(crate) fn clear(&self, prefix: &[u8]) -> Result<Arc<Batch>, Error> {
        self.answers()?;
        lock(&self.clears).push(prefix.into());
        self.clearing.fetch_add(1, Ordering::Relaxed);
        for index in 0..self.table.shards() {
            let goes = |entry: &mut Entry| entry.known().place.prefix().starts_with(prefix);
            self.table.remove_where(&mut self.table.shard(index), goes);
        }
        for known in self.limits.beginning(prefix) {
            known.overflow().clear();
        }
        Ok(self.queue.walk(Goal::Cleared(prefix.into())))
    }

    /// A walk has ended.
    pub(crate) fn walked(&self, walk: &Walk) {
        let Goal::Cleared(cleared) = &walk.goal else { return };
        let mut clears = lock(&self.clears);
        if let Some(place) = clears.iter().position(|prefix| prefix == cleared) {
            clears.swap_remove(place);
            self.clearing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// [`act`](Keeper::act) that may wait.
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

    /// One act on a key whose shard is locked. Without `may_wait` nothing is done, and there is no answer, where it would have to wait.
    fn act(
        &self,
        shard: &mut Shard,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        now: Timestamp,
        act: Act,
        may_wait: bool,
    ) -> Result<Option<Done>, Error> {
        let floor = shard.floor;
        match shard.find(lookup) {
            Some(entry) => Ok(self.act_on(entry, floor, prepared, lookup, now, act, may_wait)),
            None => self.act_on_new(shard, prepared, lookup, now, act, may_wait),
        }
    }

    #[allow(clippy::too_many_arguments)] // one key, one call, in one place
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
        let decision = act.on(machine, &mut entry.state, now);
        let batch = self.note(entry, prepared, lookup, effect, &decision, waits);
        Some(Done { decision, batch })
    }

    /// Whether the answer may be told before anything else is written.
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

    /// What was done, for the file.
    #[inline]
    fn note(
        &self,
        entry: &mut Entry,
        prepared: &Prepared,
        lookup: &Lookup<'_>,
        effect: Effect,
        decision: &Decision,
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
            // More than the capacity never passes.
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
            Ok(Some(Done { decision, batch: None }))
        };
        if self.table.is_full() {
            return in_overflow();
        }
        let mut state = lookup.known.overflow().copy(machine, start);
        let was_there = state.is_some();
        let decision = act.on(machine, &mut state, start);
        let changes = !was_there || !matches!(effect, Effect::None);
        if state.is_none() || !changes {
            return Ok(Some(Done { decision, batch: None }));
        }
        if !self.table.take_room() {
            return in_overflow();
        }
        let entry = self.table.insert(shard, *lookup, state, Mark::new(start));
        let batch = self.note(entry, prepared, lookup, effect, &decision, waits);
        Ok(Some(Done { decision, batch }))
    }

    fn may_be_in_the_file(&self, lookup: &Lookup<'_>) -> bool {
        let prefix = lookup.known.place.prefix();
        self.inherits
            && lookup.known.number().is_some()
            && (self.clearing.load(Ordering::Relaxed) == 0
                || !lock(&self.clears).iter().any(|cleared| prefix.starts_with(cleared)))
    }

    /// Brings a key from the file into memory, if it is there.
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

    /// Whether the calls are answered.
    fn answers(&self) -> Result<(), Error> {
        if !self.refuses.load(Ordering::Relaxed) {
            return Ok(());
        }
        let trouble = lock(&self.trouble);
        match &trouble.disk {
            Some(error) if !trouble.is_closed => Err(error.clone()),
            _ => Err(Error::unavailable("it is closed")),
        }
    }

    /// What [`check`](tollgate::shared::SharedStore::check) says before it asks the disk.
    pub(crate) fn is_open(&self) -> Result<(), Error> {
        let is_closed = lock(&self.trouble).is_closed;
        if is_closed { Err(Error::unavailable("it is closed")) } else { Ok(()) }
    }

    /// How the last batch went.
    pub(crate) fn disk_is(&self, result: Result<(), Error>) {
        let mut trouble = lock(&self.trouble);
        match (&result, &trouble.disk) {
            (Err(error), None) => {
                let goes_on = !self.level.waits();
                tracing::warn!(%error, goes_on, "could not write the states of limits");
            }
            (Ok(()), Some(_)) => tracing::info!("states of limits are written again"),
            _ => {}
        }
        trouble.disk = result.err();
        let failed = trouble.disk.is_some() && self.level.waits();
        self.refuses.store(failed || trouble.is_closed, Ordering::Relaxed);
    }

    /// From now on no call is answered; false if that was so before.
    pub(crate) fn refuse_all(&self) -> bool {
        let mut trouble = lock(&self.trouble);
        self.refuses.store(true, Ordering::Relaxed);
        !std::mem::replace(&mut trouble.is_closed, true)
    }

    pub(crate) fn closed_with(&self, result: Result<(), Error>) {
        lock(&self.trouble).closed = Some(result);
    }

    pub(crate) fn how_it_closed(&self) -> Result<(), Error> {
        lock(&self.trouble).closed.clone().unwrap_or(Ok(()))
    }

    pub(crate) fn inherits(&self) -> bool {
        self.inherits
    }

    /// Whether memory has an entry of this name.
    pub(crate) fn knows(&self, name: &[u8]) -> bool {
        let Some((number, key)) = file::parts(name) else { return false };
        let Some(known) = self.limits.numbered(number) else { return false };
        let lookup = self.table.lookup(&known, key);
        self.table.shard_of(&lookup).find(&lookup).is_some()
    }

    /// A key that could not be written.
    pub(crate) fn again(&self, lookup: &Lookup<'_>) {
        if let Some(entry) = self.table.shard_of(lookup).find(lookup) {
            self.queue.soon(lookup, entry, None);
        }
    }

    /// Forgets the states of a shard that equal a fresh one.
    pub(crate) fn clean_shard(&self, index: usize, now: Timestamp) {
        let mut shard = self.table.shard(index);
        let mut floor = shard.floor;
        self.table.remove_where(&mut shard, |entry| {
            let machine = entry.known().latest().machine;
            let fresh_at = machine.fresh_at(entry.state.as_ref());
            if fresh_at.is_some_and(|at| at > now) || entry.mark.queued != Queued::No {
                return false;
            }
            floor = fresh_at.map_or(floor, |at| at.max(floor));
            entry.state = None;
            if entry.mark.on_disk {
                self.queue_entry(entry, self.level.later());
            }
            !entry.mark.on_disk
        });
        shard.floor = floor;
    }

    /// All keys whose records hold a reserve are to be written without.
    pub(crate) fn queue_reserves(&self) {
        for index in 0..self.table.shards() {
            let mut shard = self.table.shard(index);
            for entry in shard.iter_mut().filter(|entry| entry.mark.holds_a_reserve()) {
                self.queue_entry(entry, None);
            }
        }
    }

    fn queue_entry(&self, entry: &mut Entry, within: Option<Duration>) {
        let known = Arc::clone(entry.known());
        let (form, bytes) = (entry.key().form(), entry.key().bytes().to_vec());
        let lookup = self.table.lookup(&known, KeyRef::from_parts(form, &bytes));
        self.queue.soon(&lookup, entry, within);
    }
}

/// Whether it is a hit that is refused: nobody is let through, so there is nothing to wait for.
fn is_refused(entry: &mut Entry, machine: &AnyMachine, act: Act, now: Timestamp) -> bool {
    match act {
        Act::Op(Op::Hit(cost)) => !machine.apply(&mut entry.state, now, Op::Peek(cost)).allowed(),
        Act::Op(Op::Take(cost)) => {
            cost > 0 && machine.apply(&mut entry.state, now, Op::Peek(1)).remaining() == 0
        }
        _ => false,
    }
}
