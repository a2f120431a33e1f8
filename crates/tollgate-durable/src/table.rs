//! The keys in memory, in shards by the hash of the key alone, so that all limits of one key are
//! behind one lock.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use tollgate::algorithm::AnyState;
use tollgate::key::Form;
use tollgate::keyed::{Count, OwnLine, entry_hash, lock};
use tollgate::{KeyRef, Timestamp};

use crate::limits::Known;
use crate::mark::Mark;

/// With a million keys each shard has about four thousand, so that cleaning never locks one for
/// long.
const SHARDS: usize = 256;

/// A key of a limit: its state and its mark.
#[derive(Debug)]
pub(crate) struct Entry {
    known: Arc<Known>,
    form: Form,
    key: Box<[u8]>,
    /// `None` until its record is deleted from the file.
    pub(crate) state: Option<AnyState>,
    pub(crate) mark: Mark,
}

impl Entry {
    #[inline]
    fn is(&self, known: &Arc<Known>, key: KeyRef<'_>) -> bool {
        Arc::ptr_eq(&self.known, known) && *self.key == *key.bytes() && self.form == key.form()
    }

    pub(crate) fn key(&self) -> KeyRef<'_> {
        KeyRef::from_parts(self.form, &self.key)
    }

    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    fn hash(&self, hasher: &RandomState) -> u64 {
        entry_hash(hash(hasher, self.key()), limit_number(&self.known))
    }
}

/// A part of the keys.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<Entry>,
    /// The latest time at which a removed state became fresh. A caller that read the clock before
    /// that and arrives later starts at the floor.
    pub(crate) floor: Timestamp,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Table {
    hasher: RandomState,
    shards: Box<[OwnLine<Mutex<Shard>>]>,
    pub(crate) count: Count,
}

/// A key of a limit, with its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) known: &'a Arc<Known>,
    pub(crate) key: KeyRef<'a>,
    /// The hash of the key alone: it chooses the shard.
    pub(crate) hash: u64,
}

impl Lookup<'_> {
    #[inline]
    fn entry_hash(&self) -> u64 {
        entry_hash(self.hash, limit_number(self.known))
    }
}

impl Table {
    pub(crate) fn new(max_keys: usize) -> Table {
        Table {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| OwnLine::default()).collect(),
            count: Count::new(max_keys),
        }
    }

    #[inline]
    pub(crate) fn lookup<'a>(&self, known: &'a Arc<Known>, key: KeyRef<'a>) -> Lookup<'a> {
        Lookup { known, key, hash: hash(&self.hasher, key) }
    }

    #[inline]
    pub(crate) fn shard_index(&self, hash: u64) -> usize {
        // Avoids the bits that hashbrown uses: the lowest ones and the highest seven.
        (hash >> 44) as usize % SHARDS
    }

    #[inline]
    pub(crate) fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[index].0)
    }

    #[inline]
    pub(crate) fn shard_of(&self, lookup: &Lookup<'_>) -> MutexGuard<'_, Shard> {
        self.shard(self.shard_index(lookup.hash))
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.count.keys.load(Ordering::Relaxed)
    }

    /// Inserts a key that has room and is not in the table.
    pub(crate) fn insert<'s>(
        &self,
        shard: &'s mut Shard,
        lookup: Lookup<'_>,
        state: Option<AnyState>,
        mark: Mark,
    ) -> &'s mut Entry {
        let Lookup { known, key, .. } = lookup;
        let known = Arc::clone(known);
        let entry = Entry { known, form: key.form(), key: key.bytes().into(), state, mark };
        let rehash = |entry: &Entry| entry.hash(&self.hasher);
        shard.table.insert_unique(lookup.entry_hash(), entry, rehash).into_mut()
    }

    pub(crate) fn remove(&self, shard: &mut Shard, lookup: &Lookup<'_>) {
        let is = |entry: &Entry| entry.is(lookup.known, lookup.key);
        if let Ok(found) = shard.table.find_entry(lookup.entry_hash(), is) {
            found.remove();
            self.count.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes all entries of a shard for which `goes` returns true.
    pub(crate) fn remove_where(&self, shard: &mut Shard, mut goes: impl FnMut(&mut Entry) -> bool) {
        let before = shard.table.len();
        shard.table.retain(|entry| !goes(entry));
        self.count.keys.fetch_sub(before - shard.table.len(), Ordering::Relaxed);
        if shard.table.len() < shard.table.capacity() / 4 {
            let room = shard.table.len() * 2;
            shard.table.shrink_to(room, |entry| entry.hash(&self.hasher));
        }
    }
}

impl Shard {
    #[inline]
    pub(crate) fn find(&mut self, lookup: &Lookup<'_>) -> Option<&mut Entry> {
        self.table.find_mut(lookup.entry_hash(), |entry| entry.is(lookup.known, lookup.key))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.table.iter_mut()
    }
}

#[inline]
fn hash(hasher: &RandomState, key: KeyRef<'_>) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(key.bytes());
    if key.form() != Form::Plain {
        hasher.write_u8(key.form() as u8);
    }
    hasher.finish()
}

/// A number that differs between limits: the address, without the bits that alignment makes zero.
#[inline]
fn limit_number(known: &Arc<Known>) -> u64 {
    Arc::as_ptr(known) as u64 >> 4
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::shared::Place;
    use tollgate::{KeyRef, Limit};

    use super::*;
    use crate::limits::{Limits, Rule};

    /// The cost of a hit does not depend on how many limits count the same key.
    #[test]
    fn one_key_under_many_limits_is_found_without_comparing_them_all() {
        const LIMITS: usize = 10_000;
        let (table, limits) = (Table::new(LIMITS), Limits::new(LIMITS, Duration::from_secs(60)));
        let limit = Limit::per_hour(5).build().unwrap();
        let key = KeyRef::plain(b"shared");
        let known: Vec<_> = (0..LIMITS)
            .map(|number| {
                let place = Place::new(&format!("tenant {number}"), &limit);
                let now = Timestamp::EPOCH;
                limits.entry(place, Rule::new(&limit, None), now, |_| None).unwrap()
            })
            .collect();
        let index = table.shard_index(table.lookup(&known[0], key).hash);
        for known in &known {
            let lookup = table.lookup(known, key);
            assert_eq!(table.shard_index(lookup.hash), index, "a policy is one step: one shard");
            table.insert(&mut table.shard(index), lookup, None, Mark::new(Timestamp::EPOCH));
        }
        let shard = table.shard(index);
        let compared = known.iter().map(|known| {
            let maybe = shard.table.iter_hash(table.lookup(known, key).entry_hash());
            maybe.take_while(|entry| !entry.is(known, key)).count()
        });
        let wrong: usize = compared.sum();
        // A table compares entries whose hashes have the same seven bits, within a group or two.
        assert!(wrong < LIMITS, "{wrong} entries compared in vain to find {LIMITS}");
    }
}
