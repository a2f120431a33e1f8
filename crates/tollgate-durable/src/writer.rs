//! The writer thread: it commits one batch after the other, each in one transaction.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Error, Timestamp};

use crate::file::{self, Change, CommitError};
use crate::keeper::Keeper;
use crate::limits::Rule;
use crate::mark::{Queued, Reserve};
use crate::queue::{Batch, BatchResult, Goal, Name, Walk, Work};
use crate::record::Record;
use crate::spare;

/// The pause after a failure of the disk.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The interval of checks for new room on a full disk.
const TRY_ROOM_AGAIN: Duration = Duration::from_secs(1);
/// The number of shards to clean and of records to visit before the next batch.
const SHARDS_IN_TURN: usize = 16;
const RECORDS_IN_TURN: usize = 10_000;
/// The number of places to look at in a clean period.
const PLACES_IN_TURN: usize = 10_000;
/// The most changes in one transaction, because a transaction keeps its changes in memory.
const CHANGES_IN_TRANSACTION: usize = 100_000;

/// A change to write.
struct Item {
    change: Change,
    /// The key of the state; `None` for a record whose key is not in memory.
    key: Option<Name>,
    /// When the record was made and its reserve; `None` for a deletion.
    written: Option<(Timestamp, u64)>,
    /// Whether the file surely gets one more record.
    is_new: bool,
}

pub(crate) struct Writer {
    keeper: Arc<Keeper>,
    /// Whether the file must be reopened before anything is written.
    failed: bool,
    full: Option<Full>,
    clean_due: Timestamp,
    clean_cursor: usize,
    /// The place that was looked at last.
    place_cursor: Box<[u8]>,
}

/// The disk is full.
struct Full {
    error: Error,
    /// New keys, to write when there is room.
    new_keys: Vec<Name>,
    tried: Timestamp,
}

/// Tells callers when the writer has ended.
struct Gone(Arc<Keeper>);

impl Drop for Gone {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = Error::unavailable("the writer thread has panicked");
            self.0.closed_with(Err(error.clone()));
            self.0.disk_is(Err(error));
        }
    }
}

impl Writer {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Writer {
        let clean_due = keeper.queue.now_by_the_clock() + keeper.clean_period;
        Writer {
            keeper,
            failed: false,
            full: None,
            clean_due,
            clean_cursor: 0,
            place_cursor: Box::default(),
        }
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
        match (&result, &self.full) {
            (Err(_), _) => self.keeper.queue.put_off(TRY_AGAIN),
            (Ok(_), Some(_)) => self.keeper.queue.again_within(TRY_ROOM_AGAIN),
            (Ok(_), None) => {}
        }
        // A failed write may have reached the disk, and its units are charged in memory.
        batch.finish(result.map_err(|error| Error::lost(error.to_string())));
    }

    /// Writes the present states of these keys, with `reserve` instead of that of their limits.
    /// Without changes it commits only if `anyway` is set.
    fn write(&mut self, names: Vec<Name>, reserve: Option<Reserve>, anyway: bool) -> BatchResult {
        self.try_room();
        let now = self.keeper.clock.now();
        let mut items: Vec<Item> =
            names.into_iter().filter_map(|name| self.item(name, now, reserve)).collect();
        if !items.is_empty() || anyway || self.failed {
            // Neighbours are on one page.
            items.sort_unstable_by(|one, other| one.change.cmp(&other.change));
            self.commit(items)?;
        }
        Ok(self.full.as_ref().map(|full| full.error.clone()))
    }

    /// The change for a key, if there is one.
    fn item(&self, key: Name, now: Timestamp, reserve: Option<Reserve>) -> Option<Item> {
        let lookup = &key.lookup();
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
        let is_new = !entry.mark.has_record;
        let (change, written) = match &entry.state {
            Some(state) if is_live => {
                let record: Record = entry.mark.record(state, reserve.unwrap_or(of_limit));
                drop(shard);
                let written = (record.at, record.reserve);
                let name = name();
                let bytes = record.to_bytes(&machine, &name);
                ((name, Some(bytes)), Some(written))
            }
            _ if entry.mark.on_disk => ((name(), None), None),
            None => {
                self.keeper.table.remove(&mut shard, lookup);
                return None;
            }
            Some(_) => return None,
        };
        let is_new = is_new && written.is_some();
        Some(Item { change, key: Some(key), written, is_new })
    }

    fn written(&self, item: &Item) {
        let Some(key) = &item.key else { return };
        let lookup = key.lookup();
        let mut shard = self.keeper.table.shard_of(&lookup);
        let Some(entry) = shard.find(&lookup) else { return };
        match item.written {
            Some((at, reserve)) => {
                entry.mark.written(at, reserve);
                if entry.mark.has_outrun() {
                    self.keeper.queue.soon(&lookup, entry, self.keeper.level.soon());
                }
            }
            None => {
                entry.mark.taken_out();
                if entry.state.is_none() && entry.mark.queued == Queued::No {
                    self.keeper.table.remove(&mut shard, &lookup);
                }
            }
        }
    }

    /// Writes everything, except new keys if there is no room for them.
    fn commit(&mut self, mut items: Vec<Item>) -> Result<(), Error> {
        let reopened = if self.failed { self.keeper.file.reopen() } else { Ok(()) };
        let result = reopened.and_then(|()| self.commit_slices(&mut items));
        self.failed = result.is_err();
        for key in items.iter().filter_map(|item| item.key.as_ref()) {
            self.keeper.again(&key.lookup());
        }
        self.keeper.disk_is(result.clone());
        result
    }

    /// Removes from `items` what was written.
    fn commit_slices(&mut self, items: &mut Vec<Item>) -> Result<(), Error> {
        let mut most = CHANGES_IN_TRANSACTION;
        loop {
            if self.full.is_some() {
                self.put_new_keys_aside(items);
                most = most.min(spare::CHANGES);
            }
            let slice = items.len().min(most);
            match self.keeper.file.commit(items[..slice].iter().map(|item| &item.change)) {
                Ok(()) => items.drain(..slice).for_each(|item| self.written(&item)),
                Err(CommitError::NoRoom(error)) if self.full.is_none() => self.fill(error)?,
                Err(CommitError::NoRoom(_)) if slice > 1 => most = slice / 2,
                Err(CommitError::NoRoom(error)) => {
                    return Err(Error::unavailable(error.detail()));
                }
                Err(CommitError::Disk(error)) => return Err(error),
            }
            if items.is_empty() {
                return Ok(());
            }
        }
    }

    fn put_new_keys_aside(&mut self, items: &mut Vec<Item>) {
        let Some(full) = &mut self.full else { return };
        for item in items.extract_if(.., |item| item.is_new) {
            if let Some(key) = item.key {
                // While it is queued it is not queued again.
                self.keeper.set_queued(&key.lookup(), Queued::Soon);
                full.new_keys.push(key);
            }
        }
    }

    /// The file cannot grow: from now on only keys that are in the file are written.
    fn fill(&mut self, error: Error) -> Result<(), Error> {
        match self.keeper.file.release_spare() {
            // When the spare pages are gone, there may still be room for a few keys at a time.
            Ok(()) | Err(CommitError::NoRoom(_)) => {}
            Err(CommitError::Disk(error)) => return Err(error),
        }
        self.keeper.no_room_is(Some(error.clone()));
        let tried = self.keeper.queue.now_by_the_clock();
        self.full = Some(Full { error, new_keys: Vec::new(), tried });
        Ok(())
    }

    /// On a full disk, checks for new room.
    fn try_room(&mut self) {
        let now = self.keeper.queue.now_by_the_clock();
        let Some(full) = &mut self.full else { return };
        if self.failed || now < full.tried + TRY_ROOM_AGAIN {
            return;
        }
        full.tried = now;
        match self.keeper.file.lay_in_spare() {
            Ok(()) => {
                for key in std::mem::take(&mut full.new_keys) {
                    self.keeper.set_queued(&key.lookup(), Queued::No);
                    self.keeper.again(&key.lookup());
                }
                self.full = None;
                self.keeper.no_room_is(None);
                self.keeper.queue.again_within(Duration::ZERO);
            }
            Err(CommitError::NoRoom(_)) => {}
            Err(CommitError::Disk(_)) => self.failed = true,
        }
    }

    /// One slice of a walk.
    fn step(&mut self, mut walk: Walk) {
        match self.slice(&mut walk) {
            Ok(true) => {
                self.keeper.walked(&walk);
                walk.batch.finish(Ok(None));
            }
            Ok(false) => self.keeper.queue.walk_on(walk),
            Err(error) => {
                self.keeper.walked(&walk);
                walk.batch.finish(Err(Error::lost(error.to_string())));
            }
        }
    }

    /// True at the end of the walk.
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
        let taken_out = |(name, _): &(Vec<u8>, Timestamp)| Item {
            change: (name.clone(), None),
            key: None,
            written: None,
            is_new: false,
        };
        let items: Vec<Item> = names.iter().filter(|name| goes(name)).map(taken_out).collect();
        if !items.is_empty() {
            self.commit(items)?;
        }
        let at_end = names.len() < RECORDS_IN_TURN;
        walk.cursor = names.into_iter().next_back().map(|(name, _)| name).unwrap_or_default();
        Ok(at_end)
    }

    /// Forgets fresh states in some of the shards.
    fn clean(&mut self) {
        // A store without traffic notices a replaced file here.
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
            self.forget_places();
            if self.keeper.inherits() {
                drop(self.keeper.queue.walk(Goal::Expired));
            }
            self.clean_due = self.keeper.queue.now_by_the_clock() + self.keeper.clean_period;
        }
    }

    /// Deletes places that have neither a limit in memory nor a record. Otherwise the file would
    /// grow with each limit that was ever used.
    fn forget_places(&mut self) {
        if self.failed || self.full.is_some() {
            return;
        }
        let file = &self.keeper.file;
        let Ok((empty, last)) = file.places_without_records(&self.place_cursor, PLACES_IN_TURN)
        else {
            return;
        };
        self.place_cursor = last.unwrap_or_default();
        // Only this thread writes records, so none of them has got one meanwhile.
        let unused = self.keeper.limits.unused(empty, |prefix| file.forget_number(prefix));
        if !unused.is_empty()
            && let Err(CommitError::NoRoom(error) | CommitError::Disk(error)) =
                file.delete_places(&unused)
        {
            // They are in the file without a number, so they are deleted after it was opened again.
            tracing::debug!(%error, "places without records stay in the file");
        }
    }

    /// Writes everything without a reserve, and closes the file.
    fn close(mut self) {
        self.keeper.queue_reserves();
        let (mut names, walks) = self.keeper.queue.last();
        if let Some(full) = &mut self.full {
            names.append(&mut full.new_keys);
        }
        let written = self.write(names, Some(Reserve::NOTHING), false);
        let result = written.and_then(|no_room| no_room.map_or(Ok(()), Err));
        if let Err(error) = &result {
            tracing::warn!(%error, "closed without writing the last states");
        }
        for walk in walks {
            walk.batch
                .finish(Err(Error::lost("the store was closed before everything was cleared")));
        }
        self.keeper.file.close();
        self.keeper.closed_with(result);
    }
}

#[cfg(test)]
mod tests {
    use tollgate::shared::Place;
    use tollgate::{Limit, ManualClock};
    use tollgate_testkit::block_on;
    use tollgate_testservers::{Directory, eventually};

    use super::*;
    use crate::Durable;

    /// A server whose clients choose limits must not fill the file with them.
    #[test]
    fn a_limit_without_limiters_and_records_leaves_the_file() {
        let directory = Directory::new();
        let path = directory.path().join("limits").display().to_string();
        let clock = ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000));
        let open = || {
            let builder = Durable::builder(&path).clock(clock.clone());
            let soon = Duration::from_millis(5);
            builder.interval(soon).clean_period(soon).open().unwrap()
        };
        let store = open();
        let hit = |store: &Durable, namespace: &str, limit: &str| {
            let _ = block_on(store.limiter_in(namespace, limit).unwrap().hit("a")).unwrap();
        };
        hit(&store, "gone", "5/minute");
        hit(&store, "has a record", "5/day");
        let held = store.limiter_in("has a limiter", "5/minute").unwrap();
        let _ = block_on(held.hit("a")).unwrap();
        block_on(store.flush()).unwrap();
        let number = |store: &Durable, namespace: &str, limit: &str| {
            let limit: Limit = limit.parse().unwrap();
            store.inner.keeper.file.number(Place::new(namespace, &limit).prefix())
        };
        assert!(number(&store, "gone", "5/minute").is_some());
        clock.advance(Duration::from_secs(3_600));
        eventually("the number is free", || number(&store, "gone", "5/minute").is_none());
        assert!(number(&store, "has a record", "5/day").is_some());
        assert!(number(&store, "has a limiter", "5/minute").is_some());
        drop((held, store));
        // It has left the file too, and can be used again.
        let store = open();
        assert_eq!(number(&store, "gone", "5/minute"), None);
        assert!(number(&store, "has a record", "5/day").is_some());
        hit(&store, "gone", "5/minute");
        block_on(store.flush()).unwrap();
        assert!(number(&store, "gone", "5/minute").is_some());
    }
}
