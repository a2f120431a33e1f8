//! The records of holds in a store that keeps them in this process.
//!
//! A record is found by the hash of its namespace and id in one of a few shards, each behind a lock.
//! Records of settled holds are forgotten in the order in which the holds were settled, a few with
//! each call. A sweep finds the holds that have expired without a settlement.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::{HoldId, HoldPhase, HoldRecord};
use crate::error::Error;
use crate::keyed::{OwnLine, lock};
use crate::time::Timestamp;
use std::hash::BuildHasher as _;

const SHARDS: usize = 64;

/// The shortest time between two sweeps that make room for a new hold, in microseconds.
const SWEEP_PAUSE: u64 = 1_000_000;

/// The records of a store, with a bound on the number of open holds.
#[derive(Debug)]
pub struct HoldTable {
    hasher: RandomState,
    shards: Box<[OwnLine<Mutex<Shard>>]>,
    /// The number of entries that are counted as open.
    open: AtomicUsize,
    max_holds: usize,
    swept_at: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashTable<Entry>,
    /// The hash and the end of retention of each settled hold, in the order of the settlements.
    settled: VecDeque<(u64, Timestamp)>,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    namespace: Box<str>,
    id: HoldId,
    record: HoldRecord,
    /// Whether the hold counts as open. False once a sweep has found that it has expired.
    counted: bool,
}

/// Permission to open one more hold. It is given back on drop unless it was used.
#[derive(Debug)]
pub struct Room<'a>(Option<&'a AtomicUsize>);

impl Room<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.0 {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl HoldTable {
    /// A table without records.
    #[must_use]
    pub fn new(max_holds: usize) -> HoldTable {
        HoldTable {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| OwnLine::default()).collect(),
            open: AtomicUsize::new(0),
            max_holds,
            swept_at: AtomicU64::new(0),
        }
    }

    /// Returns the number of open holds. Holds that have expired may count until the next sweep.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns permission to open one more hold.
    ///
    /// # Errors
    /// Fails if the store is at its bound. No hold is ever evicted for another.
    pub fn room(&self, now: Timestamp) -> Result<Room<'_>, Error> {
        let take = || {
            let more = |open| (open < self.max_holds).then_some(open + 1);
            self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        };
        let next = now.plus(SWEEP_PAUSE).as_micros();
        let due = |due| (now.as_micros() >= due).then_some(next);
        let sweeps =
            || self.swept_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok();
        if take() {
            return Ok(Room(Some(&self.open)));
        }
        if sweeps() {
            (0..SHARDS).for_each(|shard| self.sweep(shard, now));
            if take() {
                return Ok(Room(Some(&self.open)));
            }
        }
        Err(Error::overloaded(format!(
            "{} holds are open, and the store keeps no more (max_holds)",
            self.max_holds
        )))
    }

    /// Calls `f` with the record of a hold, and keeps what it leaves. The record is locked until
    /// `f` returns. If `f` opens a hold, `room` is used for it; without room it must not.
    pub fn with<R>(
        &self,
        namespace: &str,
        id: &HoldId,
        now: Timestamp,
        room: Option<Room<'_>>,
        f: impl FnOnce(&mut Option<HoldRecord>) -> R,
    ) -> R {
        let hash = self.hasher.hash_one((namespace, id));
        let shard = &mut *lock(&self.shards[hash as usize % SHARDS].0);
        self.forget_settled(shard, now);
        let is_it = |entry: &Entry| &*entry.namespace == namespace && entry.id == *id;
        let Ok(found) = shard.entries.find_entry(hash, is_it) else {
            let mut record = None;
            let result = f(&mut record);
            if let Some(record) = record {
                let counted = room.map(Room::keep).is_some();
                let entry =
                    Entry { hash, namespace: namespace.into(), id: id.clone(), record, counted };
                shard.entries.insert_unique(hash, entry, |entry| entry.hash);
            }
            return result;
        };
        let (mut entry, vacant) = found.remove();
        let was_settled = matches!(entry.record.phase, HoldPhase::Settled(_));
        if entry.record.forget_at() <= now && entry.counted {
            self.open.fetch_sub(1, Ordering::Relaxed);
            entry.counted = false;
        }
        let was_forgotten = entry.record.forget_at() <= now;
        let mut record = Some(entry.record);
        let result = f(&mut record);
        let Some(record) = record else {
            if entry.counted {
                self.open.fetch_sub(1, Ordering::Relaxed);
            }
            return result;
        };
        let is_settled = matches!(record.phase, HoldPhase::Settled(_));
        if is_settled && entry.counted {
            self.open.fetch_sub(1, Ordering::Relaxed);
            entry.counted = false;
        }
        if was_forgotten && !is_settled {
            entry.counted = room.map(Room::keep).is_some();
        }
        if is_settled && !was_settled {
            shard.settled.push_back((hash, record.forget_at()));
        }
        vacant.insert(Entry { record, ..entry });
        result
    }

    /// Forgets the oldest settled holds: those whose retention is over, and those beyond the bound.
    /// The bound on settled holds is that on open holds, so that memory is bounded.
    fn forget_settled(&self, shard: &mut Shard, now: Timestamp) {
        for _ in 0..4 {
            let beyond = shard.settled.len() > self.max_holds.div_ceil(SHARDS);
            let Some((hash, forget_at)) = shard.settled.front().copied() else { return };
            if forget_at > now && !beyond {
                return;
            }
            shard.settled.pop_front();
            let is_it = |entry: &Entry| {
                matches!(entry.record.phase, HoldPhase::Settled(_))
                    && entry.hash == hash
                    && entry.record.forget_at() == forget_at
            };
            if let Ok(found) = shard.entries.find_entry(hash, is_it) {
                found.remove();
            }
        }
    }

    /// Finds the expired holds of one shard, and forgets those whose retention is over. `step` may
    /// be any number.
    pub fn sweep(&self, step: usize, now: Timestamp) {
        let shard = &mut *lock(&self.shards[step % SHARDS].0);
        let expired = shard.entries.extract_if(|entry| {
            if entry.counted && !entry.record.is_open(now) {
                self.open.fetch_sub(1, Ordering::Relaxed);
                entry.counted = false;
            }
            entry.record.forget_at() <= now
        });
        drop(expired.collect::<Vec<_>>());
    }

    /// Forgets all holds of a namespace.
    pub fn clear_namespace(&self, namespace: &str) {
        for shard in &self.shards {
            let shard = &mut *lock(&shard.0);
            let gone = shard.entries.extract_if(|entry| &*entry.namespace == namespace);
            let counted = gone.filter(|entry| entry.counted).count();
            self.open.fetch_sub(counted, Ordering::Relaxed);
        }
    }
}
