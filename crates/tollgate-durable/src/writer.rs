//! The thread that writes: one batch after the other, each in one transaction.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Error, Timestamp};

use crate::file::{self, Change};
use crate::keeper::Keeper;
use crate::limits::Rule;
use crate::mark::{Queued, Reserve};
use crate::queue::{Batch, Goal, Name, Walk, Work};
use crate::record::Record;
use crate::table::Lookup;

/// When to try again after the disk has failed.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// Shards that are cleaned, and records that are looked at, before the next batch has its turn.
const SHARDS_IN_TURN: usize = 16;
const RECORDS_IN_TURN: usize = 10_000;
/// A transaction holds in memory what it changes.
const CHANGES_IN_TRANSACTION: usize = 100_000;

/// A key whose record was written, as it was then; `None` if it was taken out.
type Receipt = (Name, Option<(Timestamp, u64)>);

pub(crate) struct Writer {
    keeper: Arc<Keeper>,
    /// Whether the file must be opened anew before anything is written.
    failed: bool,
    clean_due: Timestamp,
    clean_cursor: usize,
}

/// Whoever needs the disk must know when nobody writes any more.
struct Gone(Arc<Keeper>);

impl Drop for Gone {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = Error::unavailable("the thread that writes has panicked");
            self.0.closed_with(Err(error.clone()));
            self.0.disk_is(Err(error));
        }
    }
}

impl Writer {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Writer {
        let clean_due = keeper.queue.now_by_the_clock() + keeper.clean_period;
        Writer { keeper, failed: false, clean_due, clean_cursor: 0 }
    }

    pub(crate) fn run(mut self) {
        let _gone = Gone(Arc::clone(&self.keeper));
        loop {
            match self.keeper.queue.next(self.clean_due) {
                Work::Write { batch, names, anyway } => self.batch(&batch, names, anyway),
                Work::Walk(walk) => self.step(walk),
                Work::Rest => self.clean(),
                Work::Stop => return self.close(),
            }
        }
    }

    fn batch(&mut self, batch: &Batch, names: Vec<Name>, anyway: bool) {
        let result = self.write(names, None, anyway);
        if result.is_err() {
            self.keeper.queue.again_within(TRY_AGAIN);
        }
        // What could not be written may be there all the same, and is in memory.
        batch.finish(result.map_err(|error| Error::lost(error.to_string())));
    }

    /// Writes what these keys are now; `reserve` instead of what their limits get. With nothing to
    /// write the disk is asked only `anyway`.
    fn write(
        &mut self,
        names: Vec<Name>,
        reserve: Option<Reserve>,
        anyway: bool,
    ) -> Result<(), Error> {
        let now = self.keeper.clock.now();
        let (mut changes, mut receipts) = (Vec::new(), Vec::new());
        for name in names {
            if let Some((change, written)) = self.change(&name.lookup(), now, reserve) {
                changes.push(change);
                receipts.push((name, written));
            }
        }
        if changes.is_empty() && !anyway && !self.failed {
            return Ok(());
        }
        // Neighbours lie on one page.
        changes.sort_unstable();
        let result = self.commit(&changes);
        for (name, written) in receipts {
            match &result {
                Ok(()) => self.written((name, written)),
                Err(_) => self.keeper.again(&name.lookup()),
            }
        }
        result
    }

    /// What is to be written of a key, if anything.
    fn change(
        &self,
        lookup: &Lookup<'_>,
        now: Timestamp,
        reserve: Option<Reserve>,
    ) -> Option<(Change, Option<(Timestamp, u64)>)> {
        let Rule { machine, reserve: of_limit } = lookup.known.latest();
        let mut shard = self.keeper.table.shard_of(lookup);
        let entry = shard.find(lookup)?;
        if entry.mark.queued == Queued::No {
            return None;
        }
        entry.mark.queued = Queued::No;
        let is_live = machine.fresh_at(entry.state.as_ref()).is_some_and(|at| at > now);
        let file = &self.keeper.file;
        let limits = &self.keeper.limits;
        let new_number = || file.new_number(lookup.known.place.prefix());
        let number = || limits.number(lookup.known, new_number);
        let name = || file::name(number(), lookup.key);
        match &entry.state {
            Some(state) if is_live => {
                let record: Record = entry.mark.record(state, reserve.unwrap_or(of_limit));
                drop(shard);
                let written = (record.at, record.reserve);
                let name = name();
                let bytes = record.to_bytes(&machine, &name);
                Some(((name, Some(bytes)), Some(written)))
            }
            _ if entry.mark.on_disk => Some(((name(), None), None)),
            None => {
                self.keeper.table.remove(&mut shard, lookup);
                None
            }
            Some(_) => None,
        }
    }

    fn written(&self, (name, written): Receipt) {
        let lookup = name.lookup();
        let mut shard = self.keeper.table.shard_of(&lookup);
        let Some(entry) = shard.find(&lookup) else { return };
        match written {
            Some((at, reserve)) => {
                entry.mark.written(at, reserve);
                if entry.mark.has_outrun() {
                    self.keeper.queue.soon(&lookup, entry, self.keeper.level.soon());
                }
            }
            None => {
                entry.mark.on_disk = false;
                if entry.state.is_none() && entry.mark.queued == Queued::No {
                    self.keeper.table.remove(&mut shard, &lookup);
                }
            }
        }
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let file = &self.keeper.file;
        let reopened = if self.failed { file.reopen() } else { Ok(()) };
        let slices = || -> Result<(), Error> {
            if changes.is_empty() {
                return file.commit(changes);
            }
            changes.chunks(CHANGES_IN_TRANSACTION).try_for_each(|slice| file.commit(slice))
        };
        let result = reopened.and_then(|()| slices());
        self.failed = result.is_err();
        self.keeper.disk_is(result.clone());
        result
    }

    /// One slice of a walk.
    fn step(&mut self, mut walk: Walk) {
        match self.slice(&mut walk) {
            Ok(true) => {
                self.keeper.walked(&walk);
                walk.batch.finish(Ok(()));
            }
            Ok(false) => self.keeper.queue.walk_on(walk),
            Err(error) => {
                self.keeper.walked(&walk);
                walk.batch.finish(Err(Error::lost(error.to_string())));
            }
        }
    }

    /// True when it has come to its end.
    fn slice(&mut self, walk: &mut Walk) -> Result<bool, Error> {
        let names = self.keeper.file.names(&walk.cursor, RECORDS_IN_TURN)?;
        let now = self.keeper.clock.now();
        let cleared = match &walk.goal {
            Goal::Expired => None,
            Goal::Cleared(prefix) => Some(self.keeper.file.numbers(prefix)),
        };
        let is_meant = |name: &[u8], expires: Timestamp| match &cleared {
            None => expires <= now,
            Some(numbers) => file::parts(name).is_some_and(|(number, _)| numbers.contains(&number)),
        };
        let goes = |(name, expires): &(Vec<u8>, Timestamp)| {
            is_meant(name, *expires) && !self.keeper.knows(name)
        };
        let change = |(name, _): &(Vec<u8>, Timestamp)| (name.clone(), None);
        let changes: Vec<Change> = names.iter().filter(|name| goes(name)).map(change).collect();
        if !changes.is_empty() {
            self.commit(&changes)?;
        }
        let at_end = names.len() < RECORDS_IN_TURN;
        walk.cursor = names.into_iter().next_back().map(|(name, _)| name).unwrap_or_default();
        Ok(at_end)
    }

    /// Forgets states that equal a fresh one, in some of the shards.
    fn clean(&mut self) {
        // A store without traffic notices here.
        if let Err(error) = self.keeper.file.is_in_place() {
            self.failed = true;
            self.keeper.disk_is(Err(error));
            self.keeper.queue.again_within(TRY_AGAIN);
        }
        let now = self.keeper.clock.now();
        let end = (self.clean_cursor + SHARDS_IN_TURN).min(self.keeper.table.shards());
        (self.clean_cursor..end).for_each(|index| self.keeper.clean_shard(index, now));
        self.clean_cursor = end;
        if end == self.keeper.table.shards() {
            self.clean_cursor = 0;
            self.keeper.limits.forget(now);
            if self.keeper.inherits() {
                drop(self.keeper.queue.walk(Goal::Expired));
            }
            self.clean_due = self.keeper.queue.now_by_the_clock() + self.keeper.clean_period;
        }
    }

    /// Writes everything as it is, without a reserve, and lets the file go.
    fn close(mut self) {
        self.keeper.queue_reserves();
        let (names, walks) = self.keeper.queue.last();
        let result = self.write(names, Some(Reserve::NOTHING), false);
        if let Err(error) = &result {
            tracing::warn!(%error, "closed without writing the last states");
        }
        for walk in walks {
            walk.batch.finish(Err(Error::lost("closed before all was cleared")));
        }
        self.keeper.file.close();
        self.keeper.closed_with(result);
    }
}
