//! The state that callers and the writer share: keys in memory, the file, and the queue of writes.

mod deciding;

pub(crate) use deciding::Done;

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::algorithm::Aging;
use tollgate::keyed::lock;
use tollgate::shared::Place;
use tollgate::{Error, KeyRef, Limit, Timestamp};

use crate::clock::Time;
use crate::file::{self, File};
use crate::level::Keeping;
use crate::limits::{Known, Limits, Rule};
use crate::mark::Queued;
use crate::queue::{Batch, Goal, Queue, Walk};
use crate::table::{Entry, Lookup, Table};

/// A limit as a [`Durable`](crate::Durable) store holds it.
#[derive(Clone, Debug)]
pub struct Prepared {
    known: Arc<Known>,
    rule: Rule,
    /// A denied attempt changes the state.
    pushes: bool,
}

impl Prepared {
    pub(crate) fn prefix(&self) -> &[u8] {
        self.known.place.prefix()
    }
}

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) level: Keeping,
    pub(crate) clock: Time,
    pub(crate) table: Table,
    pub(crate) limits: Limits,
    pub(crate) file: File,
    pub(crate) queue: Queue,
    pub(crate) clean_period: Duration,
    /// Whether the file had records when it was opened: then a key that is not in memory may be in
    /// the file.
    inherits: bool,
    /// A [`DiskState`].
    disk: AtomicU8,
    trouble: Mutex<Trouble>,
    /// Prefixes that are being cleared: the file is not read for them.
    clears: Mutex<Vec<Box<[u8]>>>,
    clearing: AtomicUsize,
}

/// The state of the disk, as far as calls need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// The disk works, or the level needs none.
    Works,
    /// The disk has no room for keys that are not in the file.
    Full,
    /// No call is answered any more: the disk has failed, or the store is closed.
    Fails,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Why the last batch could not be written.
    disk: Option<Error>,
    /// Why new keys could not be written.
    no_room: Option<Error>,
    closed: Option<Result<(), Error>>,
    is_closed: bool,
}

impl Keeper {
    pub(crate) fn new(
        level: Keeping,
        clock: Time,
        max_keys: usize,
        max_limits: usize,
        clean_period: Duration,
        file: File,
    ) -> Result<Keeper, Error> {
        Ok(Keeper {
            level,
            clock,
            table: Table::new(max_keys),
            limits: Limits::new(max_limits, clean_period),
            inherits: file.len()? > 0,
            file,
            queue: Queue::new(),
            clean_period,
            disk: AtomicU8::new(DiskState::Works as u8),
            trouble: Mutex::default(),
            clears: Mutex::default(),
            clearing: AtomicUsize::new(0),
        })
    }

    pub(crate) fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        tollgate::hold::refuse_slots(limit, "durable")?;
        let rule = Rule::new(limit, self.level.reserves_for());
        let place = Place::new(namespace, limit);
        let now = self.clock.now();
        let known =
            self.limits.entry(place, rule, now, |place| self.file.number(place.prefix()))?;
        Ok(Prepared { known, rule, pushes: rule.machine.aging() == Aging::Attempts })
    }

    /// Forgets all keys with this prefix.
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

    /// Called at the end of a walk.
    pub(crate) fn walked(&self, walk: &Walk) {
        let Goal::Cleared(cleared) = &walk.goal else { return };
        let mut clears = lock(&self.clears);
        if let Some(place) = clears.iter().position(|prefix| prefix == cleared) {
            clears.swap_remove(place);
            self.clearing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn disk(&self) -> DiskState {
        const WORKS: u8 = DiskState::Works as u8;
        const FULL: u8 = DiskState::Full as u8;
        match self.disk.load(Ordering::Relaxed) {
            WORKS => DiskState::Works,
            FULL => DiskState::Full,
            _ => DiskState::Fails,
        }
    }

    /// Whether calls are answered.
    fn answers(&self) -> Result<(), Error> {
        if self.disk() != DiskState::Fails {
            return Ok(());
        }
        let trouble = lock(&self.trouble);
        match &trouble.disk {
            Some(error) if !trouble.is_closed => Err(error.clone()),
            _ => Err(Error::unavailable("it is closed")),
        }
    }

    /// The error of a key for which the file has no room. It concerns only this key, and all others
    /// are answered, so it opens no breaker.
    fn no_room(&self) -> Error {
        let error = lock(&self.trouble).no_room.clone();
        error.unwrap_or_else(|| Error::store("the file had no room for new keys", true))
    }

    /// The part of [`check`](tollgate::shared::SharedStore::check) that needs no disk access.
    pub(crate) fn is_open(&self) -> Result<(), Error> {
        let is_closed = lock(&self.trouble).is_closed;
        if is_closed { Err(Error::unavailable("it is closed")) } else { Ok(()) }
    }

    /// Notes the result of the last batch.
    pub(crate) fn disk_is(&self, result: Result<(), Error>) {
        let mut trouble = lock(&self.trouble);
        match (&result, &trouble.disk) {
            (Err(error), None) => {
                let goes_on = !self.level.waits();
                tracing::warn!(%error, goes_on, "could not write the states of limits");
            }
            (Ok(()), Some(_)) => tracing::info!("the states of limits can be written again"),
            _ => {}
        }
        trouble.disk = result.err();
        self.tell(&trouble);
    }

    /// Notes whether there is room for new keys.
    pub(crate) fn no_room_is(&self, error: Option<Error>) {
        let mut trouble = lock(&self.trouble);
        match (&error, &trouble.no_room) {
            (Some(error), None) => {
                let goes_on = !self.level.waits();
                tracing::warn!(%error, goes_on, "no room for the states of new keys");
            }
            (None, Some(_)) => tracing::info!("there is room for new keys again"),
            _ => {}
        }
        trouble.no_room = error;
        self.tell(&trouble);
    }

    /// Publishes the state of the disk to callers.
    fn tell(&self, trouble: &Trouble) {
        let needs_disk = self.level.waits();
        let state = match trouble {
            Trouble { is_closed: true, .. } => DiskState::Fails,
            Trouble { disk: Some(_), .. } if needs_disk => DiskState::Fails,
            Trouble { no_room: Some(_), .. } if needs_disk => DiskState::Full,
            _ => DiskState::Works,
        };
        self.disk.store(state as u8, Ordering::Relaxed);
    }

    /// Refuses all calls from now on. Returns false if they were refused already.
    pub(crate) fn refuse_all(&self) -> bool {
        let mut trouble = lock(&self.trouble);
        let was_closed = std::mem::replace(&mut trouble.is_closed, true);
        self.tell(&trouble);
        !was_closed
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

    /// Whether memory has an entry with this name.
    pub(crate) fn knows(&self, name: &[u8]) -> bool {
        let Some((number, key)) = file::parts(name) else { return false };
        let Some(known) = self.limits.numbered(number) else { return false };
        let lookup = self.table.lookup(&known, key);
        self.table.shard_of(&lookup).find(&lookup).is_some()
    }

    /// Queues a key again that could not be written.
    pub(crate) fn again(&self, lookup: &Lookup<'_>) {
        if let Some(entry) = self.table.shard_of(lookup).find(lookup) {
            self.queue.soon(lookup, entry, None);
        }
    }

    /// Marks a key as queued or not queued.
    pub(crate) fn set_queued(&self, lookup: &Lookup<'_>, queued: Queued) {
        if let Some(entry) = self.table.shard_of(lookup).find(lookup) {
            entry.mark.queued = queued;
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

    /// Queues all keys whose records have a reserve, to be written without it.
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
