//! Lists of the keys in a store, for operators.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::clean::Judgement;
use super::entry::{Entry, Kept, TablesOf};
use super::stored_key::StoredKey;
use super::{Inner, Memory};
use crate::clock::Clock;
use crate::key::{KeyRef, OwnedKey};
use crate::keyed::lock;
use crate::limit::Limit;
use crate::time::Timestamp;

/// A key and the units that it has in use.
///
/// ```
/// let store = tollgate::Memory::new();
/// let limiter = store.limiter("5/minute fixed-window")?;
/// limiter.hit_n("alice", 3);
/// limiter.hit("bob");
///
/// let busiest = &store.busiest(1)[0];
/// assert_eq!((busiest.key().to_string(), busiest.used()), ("alice".to_string(), 3));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    used: u64,
    namespace: Box<str>,
    limit: Arc<Limit>,
    key: OwnedKey,
}

impl KeyUsage {
    /// Returns the key.
    ///
    /// See the example of [`KeyUsage`].
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        self.key.as_key_ref()
    }

    /// Returns the limit that counts the key.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the namespace of the limit.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the units in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }
}

impl<C: Clock + 'static> Memory<C> {
    /// Returns all keys that are not fresh, in no particular order. It reads one shard after the
    /// other, so the list is not a snapshot of one instant.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// store.limiter("1/hour")?.hit("alice");
    /// assert_eq!(store.keys()[0].key().to_string(), "alice");
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn keys(&self) -> Vec<KeyUsage> {
        let mut keys = Vec::new();
        self.inner.for_each_key(|usage| keys.push(usage()), |_| true);
        keys
    }

    /// Returns at most `count` keys: those with the most units in use, the busiest first.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// assert!(store.busiest(10).is_empty());
    /// ```
    #[must_use]
    pub fn busiest(&self, count: usize) -> Vec<KeyUsage> {
        // The key with the fewest units is on top of the heap, and is removed first.
        let mut busiest: BinaryHeap<Reverse<ByUse>> = BinaryHeap::new();
        let least = std::cell::Cell::new(0);
        self.inner.for_each_key(
            |usage| {
                busiest.push(Reverse(ByUse(usage())));
                if busiest.len() > count {
                    busiest.pop();
                }
                let full = busiest.len() >= count;
                least.set(busiest.peek().filter(|_| full).map_or(0, |top| top.0.0.used));
            },
            |used| used > least.get(),
        );
        busiest.into_sorted_vec().into_iter().map(|Reverse(ByUse(usage))| usage).collect()
    }
}

/// A key usage that is ordered by the units in use alone.
#[derive(PartialEq, Eq)]
struct ByUse(KeyUsage);

impl Ord for ByUse {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.used.cmp(&other.0.used)
    }
}

impl PartialOrd for ByUse {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<C: Clock> Inner<C> {
    /// Calls `f` for every key that is not fresh and for whose units in use `wanted` returns true.
    /// `f` gets a function that creates the [`KeyUsage`].
    fn for_each_key(&self, mut f: impl FnMut(&dyn Fn() -> KeyUsage), wanted: impl Fn(u64) -> bool) {
        let now = self.clock.now();
        for shard in &self.shards {
            let shard = lock(&shard.0);
            self.for_each_of(&shard.tables.words, now, &mut f, &wanted);
            self.for_each_of(&shard.tables.addresses, now, &mut f, &wanted);
            self.for_each_of(&shard.tables.bytes, now, &mut f, &wanted);
        }
    }

    fn for_each_of<K: StoredKey>(
        &self,
        tables: &TablesOf<K>,
        now: Timestamp,
        f: &mut impl FnMut(&dyn Fn() -> KeyUsage),
        wanted: &impl Fn(u64) -> bool,
    ) {
        self.for_each_in(&tables.one, now, f, wanted);
        self.for_each_in(&tables.two, now, f, wanted);
        self.for_each_in(&tables.three, now, f, wanted);
        self.for_each_in(&tables.logs, now, f, wanted);
        self.for_each_in(&tables.holders, now, f, wanted);
    }

    fn for_each_in<K: StoredKey, T: Kept>(
        &self,
        table: &HashTable<Entry<K, T>>,
        now: Timestamp,
        f: &mut impl FnMut(&dyn Fn() -> KeyUsage),
        wanted: &impl Fn(u64) -> bool,
    ) {
        for entry in table {
            let Some(known) = self.registry.by_number(entry.key.limit()) else { continue };
            let (limit, machine) = lock(&known.latest).clone();
            // Bans have no units in use.
            if machine.is_ban() {
                continue;
            }
            let Some(judgement) = Judgement::new(&entry.state, &machine, now) else { continue };
            let Judgement { fresh_at, used, .. } = judgement;
            if fresh_at <= now || !wanted(used) {
                continue;
            }
            f(&|| KeyUsage {
                used,
                namespace: known.namespace.clone(),
                limit: Arc::clone(&limit),
                key: entry.key.key().to_owned_key(),
            });
        }
    }
}
