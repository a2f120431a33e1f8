//! The table from keys to their allotments and waiting callers.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollgate::{KeyRef, OwnedKey};

use super::holding::Holding;
use super::wish::Waiting;

const SHARDS: usize = 64;

/// One key of one limit: its allotments and the callers that wait for more.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) holding: Holding,
    /// The oldest first.
    pub(crate) waiting: VecDeque<Waiting>,
}

/// A key of a limit, by the limit's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) limit: usize,
    pub(crate) key: KeyRef<'a>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) limit: usize,
    pub(crate) key: OwnedKey,
    pub(crate) desk: Desk,
    /// Keeps the limit from being forgotten.
    _in_use: Arc<()>,
}

#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Mutex<HashTable<Entry>>]>,
    hasher: RandomState,
    desks: AtomicUsize,
    most: usize,
}

impl Table {
    /// A table for at most this many keys.
    pub(crate) fn new(most: usize) -> Table {
        Table {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            desks: AtomicUsize::new(0),
            most,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.desks.load(Ordering::Relaxed)
    }

    /// Runs `work` on the desk of a key, if there is one.
    #[inline]
    pub(crate) fn find<R>(&self, spot: Spot<'_>, work: impl FnOnce(&mut Desk) -> R) -> Option<R> {
        let hash = self.hash(spot);
        let mut shard = self.lock(shard_of(hash));
        let entry = shard.find_mut(hash, |entry| entry.is(spot))?;
        Some(work(&mut entry.desk))
    }

    /// Runs `work` on the desk of a key, which is created if there is room for one more. A desk
    /// keeps a reference to the `desks` of its limit.
    pub(crate) fn open<R>(
        &self,
        spot: Spot<'_>,
        desks: &Arc<()>,
        work: impl FnOnce(&mut Desk) -> R,
    ) -> Option<R> {
        let hash = self.hash(spot);
        let mut shard = self.lock(shard_of(hash));
        if let Some(entry) = shard.find_mut(hash, |entry| entry.is(spot)) {
            return Some(work(&mut entry.desk));
        }
        if self.len() >= self.most {
            return None;
        }
        self.desks.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            limit: spot.limit,
            key: OwnedKey::new(&spot.key),
            desk: Desk::default(),
            _in_use: Arc::clone(desks),
        };
        let rehash = |entry: &Entry| self.hash(entry.spot());
        let mut opened = shard.insert_unique(hash, entry, rehash);
        Some(work(&mut opened.get_mut().desk))
    }

    /// Runs `work` on several desks, if all of them exist, while their shards are locked. The same
    /// spot may appear twice.
    pub(crate) fn find_all<R>(
        &self,
        spots: &[Spot<'_>],
        work: impl FnOnce(&mut Desks<'_>) -> R,
    ) -> R {
        let hashes: Vec<u64> = spots.iter().map(|spot| self.hash(*spot)).collect();
        let mut indexes: Vec<usize> = hashes.iter().map(|hash| shard_of(*hash)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let shards = indexes.iter().map(|index| (*index, self.lock(*index))).collect();
        work(&mut Desks { spots, hashes, shards })
    }

    /// Visits all desks, shard by shard, and removes those for which `keep` returns false.
    pub(crate) fn sweep(&self, mut keep: impl FnMut(&mut Entry) -> bool) {
        for index in 0..self.shards.len() {
            let mut shard = self.lock(index);
            let before = shard.len();
            if before == 0 {
                continue;
            }
            shard.retain(&mut keep);
            self.desks.fetch_sub(before - shard.len(), Ordering::Relaxed);
            if shard.len() < shard.capacity() / 4 {
                let rehash = |entry: &Entry| self.hash(entry.spot());
                shard.shrink_to_fit(rehash);
            }
        }
    }

    #[inline]
    fn hash(&self, spot: Spot<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(spot.key.bytes());
        hasher.write_usize(spot.limit * 4 + spot.key.form() as usize);
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
    fn is(&self, spot: Spot<'_>) -> bool {
        self.limit == spot.limit && self.key.as_key_ref() == spot.key
    }

    fn spot(&self) -> Spot<'_> {
        Spot { limit: self.limit, key: self.key.as_key_ref() }
    }
}

/// Several locked desks.
#[derive(Debug)]
pub(crate) struct Desks<'a> {
    spots: &'a [Spot<'a>],
    hashes: Vec<u64>,
    shards: Vec<(usize, MutexGuard<'a, HashTable<Entry>>)>,
}

impl Desks<'_> {
    /// The desk of one of the spots.
    pub(crate) fn find(&mut self, index: usize) -> Option<&mut Desk> {
        let (hash, spot) = (self.hashes[index], self.spots[index]);
        let at = self.shards.binary_search_by_key(&shard_of(hash), |(shard, _)| *shard).ok()?;
        let entry = self.shards[at].1.find_mut(hash, |entry| entry.is(spot))?;
        Some(&mut entry.desk)
    }
}
