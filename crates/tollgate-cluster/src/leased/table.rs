//! The table from keys to their allotments and waiting callers.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollgate::{KeyRef, OwnedKey};

use super::holding::Holding;
use super::waiter::Waiter;

const SHARDS: usize = 64;

/// One key of one limit: its allotments and the callers that wait for more.
#[derive(Debug, Default)]
pub(crate) struct KeyQueue {
    pub(crate) holding: Holding,
    /// The oldest first.
    pub(crate) waiters: VecDeque<Waiter>,
}

/// A key of a limit, by the limit's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterKey<'a> {
    pub(crate) limit: usize,
    pub(crate) key: KeyRef<'a>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) limit: usize,
    pub(crate) key: OwnedKey,
    pub(crate) queue: KeyQueue,
    /// Keeps the limit from being forgotten.
    _in_use: Arc<()>,
}

#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Mutex<HashTable<Entry>>]>,
    hasher: RandomState,
    queues: AtomicUsize,
    most: usize,
}

impl Table {
    /// A table for at most this many keys.
    pub(crate) fn new(most: usize) -> Table {
        Table {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            queues: AtomicUsize::new(0),
            most,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.load(Ordering::Relaxed)
    }

    /// Runs `work` on the queue of a key, if there is one.
    #[inline]
    pub(crate) fn find<R>(
        &self,
        counter: CounterKey<'_>,
        work: impl FnOnce(&mut KeyQueue) -> R,
    ) -> Option<R> {
        let hash = self.hash(counter);
        let mut shard = self.lock(shard_of(hash));
        let entry = shard.find_mut(hash, |entry| entry.is(counter))?;
        Some(work(&mut entry.queue))
    }

    /// Runs `work` on the queue of a key, which is created if there is room for one more. A queue
    /// keeps a reference to the `queues` of its limit.
    pub(crate) fn open<R>(
        &self,
        counter: CounterKey<'_>,
        queues: &Arc<()>,
        work: impl FnOnce(&mut KeyQueue) -> R,
    ) -> Option<R> {
        let hash = self.hash(counter);
        let mut shard = self.lock(shard_of(hash));
        if let Some(entry) = shard.find_mut(hash, |entry| entry.is(counter)) {
            return Some(work(&mut entry.queue));
        }
        if self.len() >= self.most {
            return None;
        }
        self.queues.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            limit: counter.limit,
            key: OwnedKey::new(&counter.key),
            queue: KeyQueue::default(),
            _in_use: Arc::clone(queues),
        };
        let rehash = |entry: &Entry| self.hash(entry.counter());
        let mut opened = shard.insert_unique(hash, entry, rehash);
        Some(work(&mut opened.get_mut().queue))
    }

    /// Runs `work` on several queues, if all of them exist, while their shards are locked. The same
    /// counter may appear twice.
    pub(crate) fn find_all<R>(
        &self,
        counters: &[CounterKey<'_>],
        work: impl FnOnce(&mut KeyQueues<'_>) -> R,
    ) -> R {
        let hashes: Vec<u64> = counters.iter().map(|counter| self.hash(*counter)).collect();
        let mut indexes: Vec<usize> = hashes.iter().map(|hash| shard_of(*hash)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let shards = indexes.iter().map(|index| (*index, self.lock(*index))).collect();
        work(&mut KeyQueues { counters, hashes, shards })
    }

    /// Visits all queues, shard by shard, and removes those for which `keep` returns false.
    pub(crate) fn sweep(&self, mut keep: impl FnMut(&mut Entry) -> bool) {
        for index in 0..self.shards.len() {
            let mut shard = self.lock(index);
            let before = shard.len();
            if before == 0 {
                continue;
            }
            shard.retain(&mut keep);
            self.queues.fetch_sub(before - shard.len(), Ordering::Relaxed);
            if shard.len() < shard.capacity() / 4 {
                let rehash = |entry: &Entry| self.hash(entry.counter());
                shard.shrink_to_fit(rehash);
            }
        }
    }

    #[inline]
    fn hash(&self, counter: CounterKey<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(counter.key.bytes());
        hasher.write_usize(counter.limit * 4 + counter.key.form() as usize);
        hasher.finish()
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, HashTable<Entry>> {
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table inside a shard uses the lowest and the highest bits.
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl Entry {
    fn is(&self, counter: CounterKey<'_>) -> bool {
        self.limit == counter.limit && self.key.as_key_ref() == counter.key
    }

    fn counter(&self) -> CounterKey<'_> {
        CounterKey { limit: self.limit, key: self.key.as_key_ref() }
    }
}

/// The queues of several counters. The shards that contain them are locked.
#[derive(Debug)]
pub(crate) struct KeyQueues<'a> {
    counters: &'a [CounterKey<'a>],
    hashes: Vec<u64>,
    shards: Vec<(usize, MutexGuard<'a, HashTable<Entry>>)>,
}

impl KeyQueues<'_> {
    /// The queue of one of the counters.
    pub(crate) fn find(&mut self, index: usize) -> Option<&mut KeyQueue> {
        let (hash, counter) = (self.hashes[index], self.counters[index]);
        let at = self.shards.binary_search_by_key(&shard_of(hash), |(shard, _)| *shard).ok()?;
        let entry = self.shards[at].1.find_mut(hash, |entry| entry.is(counter))?;
        Some(&mut entry.queue)
    }
}
