//! Cells as this process last saw them, so that a hit is one round trip. A cached cell may be
//! outdated: every swap compares its version in the store.
//!
//! The cache has two generations. When the young one is full, it replaces the old one, whose cells
//! are dropped. So cells in use stay, at the price of two look-ups.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tollgate::Timestamp;
use tollgate::algorithm::AnyState;

use crate::cells::Name;

/// Values above this size, in bytes, are not cached. Only long logs of moving windows are larger.
pub(crate) const MAX_VALUE_BYTES: usize = 4096;

const SHARDS: usize = 64;

/// A cell as it was last seen. It has no version if the cell did not exist.
#[derive(Clone, Debug)]
pub(crate) struct CachedCell<V> {
    pub(crate) state: Option<AnyState>,
    pub(crate) written: Timestamp,
    pub(crate) version: Option<V>,
    /// Whether another process had changed the cell when this process last swapped it.
    pub(crate) contended: bool,
}

impl<V> CachedCell<V> {
    /// A cell that does not exist, or that is not cached.
    pub(crate) fn absent() -> CachedCell<V> {
        CachedCell { state: None, written: Timestamp::EPOCH, version: None, contended: false }
    }
}

#[derive(Debug)]
pub(crate) struct CellCache<V> {
    shards: Box<[Mutex<Generations<V>>]>,
    /// The most cells in one generation of one shard.
    capacity: usize,
}

#[derive(Debug)]
struct Generations<V> {
    young: HashMap<Name, CachedCell<V>, RandomState>,
    old: HashMap<Name, CachedCell<V>, RandomState>,
}

impl<V: Clone> CellCache<V> {
    /// A cache of about this many cells.
    pub(crate) fn new(cells: usize) -> CellCache<V> {
        let empty = || Generations { young: HashMap::default(), old: HashMap::default() };
        let shards = (0..SHARDS).map(|_| Mutex::new(empty())).collect();
        let capacity = cells.div_ceil(2 * SHARDS);
        CellCache { shards, capacity }
    }

    fn shard(&self, name: &Name) -> MutexGuard<'_, Generations<V>> {
        self.shards[name.shard(SHARDS)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<CachedCell<V>> {
        let shard = self.shard(name);
        shard.young.get(name).or_else(|| shard.old.get(name)).cloned()
    }

    pub(crate) fn insert(&self, name: &Name, cell: CachedCell<V>) {
        if self.capacity == 0 {
            return;
        }
        let mut shard = self.shard(name);
        if let Some(entry) = shard.young.get_mut(name) {
            *entry = cell;
            return;
        }
        if shard.young.len() >= self.capacity {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(name.clone(), cell);
    }

    pub(crate) fn remove(&self, name: &Name) {
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
    fn cells_in_use_stay_cached_and_the_size_is_bounded() {
        let cache = CellCache::<u64>::new(1000);
        for n in 0..100_000_u32 {
            cache.insert(
                &name(n),
                CachedCell { version: Some(u64::from(n)), ..CachedCell::absent() },
            );
            cache.insert(&name(7), CachedCell { version: Some(7), ..CachedCell::absent() });
        }
        assert!(cache.len() <= 1000 + 2 * SHARDS, "{}", cache.len());
        assert_eq!(cache.get(&name(7)).and_then(|cell| cell.version), Some(7));
        assert!(cache.get(&name(8)).is_none());
        cache.remove(&name(7));
        assert!(cache.get(&name(7)).is_none());
        cache.clear();
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_cache_of_zero_cells_stays_empty() {
        let cache = CellCache::<u64>::new(0);
        cache.insert(&name(1), CachedCell::absent());
        assert!(cache.get(&name(1)).is_none());
    }
}
