//! The cells that were seen last, so that a hit is one round trip. What is remembered is a guess:
//! the store checks its version.
//!
//! Two generations: when the young one is full the old one goes and the young one takes its place.
//! So what is used stays, at two look-ups.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tollgate::Timestamp;
use tollgate::algorithm::AnyState;

use crate::cells::Name;

/// Values above this size, in bytes, are not remembered: long logs of moving windows.
pub(crate) const LARGEST: usize = 4096;

const SHARDS: usize = 64;

/// A cell as it was last seen. Without a version there was none.
#[derive(Clone, Debug)]
pub(crate) struct Known<V> {
    pub(crate) state: Option<AnyState>,
    pub(crate) written: Timestamp,
    pub(crate) version: Option<V>,
    /// Whether somebody else had changed it when it was last swapped.
    pub(crate) contended: bool,
}

impl<V> Known<V> {
    /// No cell, or one that nothing is known about.
    pub(crate) fn nothing() -> Known<V> {
        Known { state: None, written: Timestamp::EPOCH, version: None, contended: false }
    }
}

#[derive(Debug)]
pub(crate) struct Memory<V> {
    shards: Box<[Mutex<Generations<V>>]>,
    /// Cells in one generation of one shard.
    room: usize,
}

#[derive(Debug)]
struct Generations<V> {
    young: HashMap<Name, Known<V>, RandomState>,
    old: HashMap<Name, Known<V>, RandomState>,
}

impl<V: Clone> Memory<V> {
    /// Remembers at most so many cells.
    pub(crate) fn new(cells: usize) -> Memory<V> {
        let empty = || Generations { young: HashMap::default(), old: HashMap::default() };
        let shards = (0..SHARDS).map(|_| Mutex::new(empty())).collect();
        let room = cells.div_ceil(2 * SHARDS);
        Memory { shards, room }
    }

    fn shard(&self, name: &Name) -> MutexGuard<'_, Generations<V>> {
        self.shards[name.shard(SHARDS)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn recall(&self, name: &Name) -> Option<Known<V>> {
        let shard = self.shard(name);
        shard.young.get(name).or_else(|| shard.old.get(name)).cloned()
    }

    pub(crate) fn remember(&self, name: &Name, known: Known<V>) {
        if self.room == 0 {
            return;
        }
        let mut shard = self.shard(name);
        if let Some(place) = shard.young.get_mut(name) {
            *place = known;
            return;
        }
        if shard.young.len() >= self.room {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(name.clone(), known);
    }

    pub(crate) fn forget(&self, name: &Name) {
        let mut shard = self.shard(name);
        shard.young.remove(name);
        shard.old.remove(name);
    }

    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            *shard = Generations { young: HashMap::default(), old: HashMap::default() };
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let count = |shard: &Mutex<Generations<V>>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.young.len() + shard.old.len()
        };
        self.shards.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> Name {
        Name::new(n.to_string().into_bytes(), 0)
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let memory = Memory::<u64>::new(1000);
        for n in 0..100_000_u32 {
            memory.remember(&name(n), Known { version: Some(u64::from(n)), ..Known::nothing() });
            memory.remember(&name(7), Known { version: Some(7), ..Known::nothing() });
        }
        assert!(memory.len() <= 1000 + 2 * SHARDS, "{}", memory.len());
        assert_eq!(memory.recall(&name(7)).and_then(|known| known.version), Some(7));
        assert!(memory.recall(&name(8)).is_none());
        memory.forget(&name(7));
        assert!(memory.recall(&name(7)).is_none());
        memory.clear();
        assert_eq!(memory.len(), 0);
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let memory = Memory::<u64>::new(0);
        memory.remember(&name(1), Known::nothing());
        assert!(memory.recall(&name(1)).is_none());
    }
}
