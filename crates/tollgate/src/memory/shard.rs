//! One shard: the states of some of the keys, protected by one lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;

use super::entry::{Entry, Kept as _, NoPart, Stored, Tables, Whole};
use super::stored_key::{AddressKey, BytesKey, StoredKey, WordKey};
use crate::algorithm::concurrent::{Concurrent, ConcurrentState};
use crate::algorithm::{Act, AnyMachine, AnyState, KnownAct, Op, with_machine};
use crate::key::Compact;
use crate::keyed::{Count, Overflow, entry_hash};
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// A limit that the store knows. All limiters that have prepared it share this value.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) number: u32,
    pub(super) namespace: Box<str>,
    /// The hash of the namespace. It helps to select the shard, so that a key under the limits of
    /// very many namespaces does not fill one shard, which is cleaned in one step.
    pub(super) spread: u64,
    /// The limit as it was prepared last. The quota of a limit with a name may change.
    pub(super) latest: Mutex<(Arc<Limit>, AnyMachine)>,
    /// The number of keys with an entry.
    pub(super) keys: AtomicUsize,
    pub(super) overflow: Overflow,
}

/// A key and its limit, as a shard looks them up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup<'a> {
    pub(super) known: &'a Known,
    pub(super) machine: &'a AnyMachine,
    /// The hash of the key alone.
    pub(super) hash: u64,
    pub(super) key: Compact<'a>,
    /// Whether the states of this limit never have fractions of a microsecond.
    pub(super) has_no_parts: bool,
}

impl Lookup<'_> {
    /// Returns the hash that selects the shard. It is the same for all limits of a policy.
    #[inline]
    pub(super) fn shard_hash(&self) -> u64 {
        self.hash ^ self.known.spread
    }

    #[inline]
    fn entry_hash(&self) -> u64 {
        entry_hash(self.hash, self.known.number.into())
    }
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) tables: Tables,
    /// The latest time at which a removed state became fresh. A caller that has read the clock
    /// before that time and looks up a key afterwards starts at this time.
    pub(super) floor: Timestamp,
    /// The time at which unused keys were last removed because of their age.
    pub(super) aged_at: Timestamp,
}

impl Shard {
    #[inline(always)]
    pub(super) fn act(
        &mut self,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        match lookup.key {
            Compact::Word(kind, word) => {
                self.act_on::<WordKey>((kind, word), lookup, count, hasher, now, act)
            }
            Compact::Address(address) => {
                self.act_on::<AddressKey>(address, lookup, count, hasher, now, act)
            }
            Compact::Bytes(kind, bytes) => {
                self.act_on::<BytesKey>((kind, bytes), lookup, count, hasher, now, act)
            }
        }
    }

    /// Acts on a key of one layout. For GCRA in whole microseconds everything is inlined into the
    /// caller, so that fields of the decision that the caller does not read are never computed.
    #[inline(always)]
    fn act_on<K: StoredKey>(
        &mut self,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        match lookup.machine {
            AnyMachine::Gcra(machine) if lookup.has_no_parts => {
                self.act_with::<K, NoPart, _>(machine, key, lookup, count, hasher, now, act)
            }
            _ => self.act_by_call::<K>(key, lookup, count, hasher, now, act),
        }
    }

    #[inline(never)]
    fn act_by_call<K: StoredKey>(
        &mut self,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        with_machine!(lookup.machine, machine => {
            self.act_with::<K, Whole, _>(machine, key, lookup, count, hasher, now, act)
        })
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the arguments stay in registers")]
    fn act_with<K: StoredKey, L, M: Stored<L>>(
        &mut self,
        machine: &M,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        let number = lookup.known.number;
        let table = M::Kept::table(K::tables(&mut self.tables));
        let Some(entry) = table.find_mut(lookup.entry_hash(), |entry| entry.key.is(number, key))
        else {
            return self.act_on_new::<K, L, M>(machine, key, lookup, count, hasher, now, act);
        };
        entry.key.replace_used(true);
        let mut state = Some(M::take(&mut entry.state));
        let step = act.step(machine, &mut state, now);
        let decision = Outcome::new(machine, state.as_ref(), now, step);
        match state {
            Some(state) => M::put(&mut entry.state, state),
            None => self.remove::<K, L, M>(key, lookup, count),
        }
        decision
    }

    #[cold]
    #[expect(clippy::too_many_arguments, reason = "as above")]
    fn act_on_new<K: StoredKey, L, M: Stored<L>>(
        &mut self,
        machine: &M,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        let known = lookup.known;
        let start = now.max(self.floor);
        if act.act() == Act::Op(Op::Reset) {
            // There is no entry to forget, and the overflow state belongs to other keys too.
            return lookup.machine.apply(&mut None, now, Op::Reset);
        }
        if count.is_full() && matches!(lookup.machine, AnyMachine::Concurrent(_)) {
            // Holders of different keys must not share slots.
            return super::holds::denied_at_bound(lookup.machine, now, 1);
        }
        if count.is_full() {
            count.overflowed.fetch_add(1, Ordering::Relaxed);
            return known.overflow.act(lookup.machine, start, act.act());
        }
        let copy = known.overflow.copy(lookup.machine, start);
        let mut state = copy.and_then(AnyState::downcast);
        let step = act.step(machine, &mut state, start);
        let writes = step.changed && state.is_some();
        if writes && !count.take() {
            count.overflowed.fetch_add(1, Ordering::Relaxed);
            return known.overflow.act(lookup.machine, start, act.act());
        }
        let decision = Outcome::new(machine, state.as_ref(), now, step);
        if let Some(state) = state.filter(|_| writes) {
            self.insert::<K, L, M>(key, lookup, hasher, state);
        }
        decision
    }

    /// Takes the state of a key out of its entry, which stays. The caller then calls
    /// [`put_state`](Shard::put_state). `None` if the key has no entry.
    pub(super) fn take_state(&mut self, lookup: Lookup<'_>) -> Option<AnyState> {
        struct Take;

        impl OnEntry<Option<AnyState>> for Take {
            fn on<K: StoredKey, L, M: Stored<L>>(
                self,
                shard: &mut Shard,
                _machine: &M,
                key: K::Key<'_>,
                lookup: Lookup<'_>,
            ) -> Option<AnyState> {
                let number = lookup.known.number;
                let table = M::Kept::table(K::tables(&mut shard.tables));
                let entry =
                    table.find_mut(lookup.entry_hash(), |entry| entry.key.is(number, key))?;
                entry.key.replace_used(true);
                lookup.machine.wrap(M::take(&mut entry.state))
            }
        }

        self.on_entry(lookup, Take)
    }

    /// Writes the state of a key that has an entry. `None` removes the entry.
    pub(super) fn put_state(&mut self, lookup: Lookup<'_>, count: &Count, state: Option<AnyState>) {
        struct Put<'a>(&'a Count, Option<AnyState>);

        impl OnEntry<()> for Put<'_> {
            fn on<K: StoredKey, L, M: Stored<L>>(
                self,
                shard: &mut Shard,
                _machine: &M,
                key: K::Key<'_>,
                lookup: Lookup<'_>,
            ) {
                let Some(state) = self.1.and_then(AnyState::downcast) else {
                    return shard.remove::<K, L, M>(key, lookup, self.0);
                };
                let number = lookup.known.number;
                let table = M::Kept::table(K::tables(&mut shard.tables));
                let is_it = |entry: &Entry<K, M::Kept>| entry.key.is(number, key);
                if let Some(entry) = table.find_mut(lookup.entry_hash(), is_it) {
                    M::put(&mut entry.state, state);
                }
            }
        }

        self.on_entry(lookup, Put(count, state));
    }

    /// Makes the entry of a key that has none. The caller has counted it.
    pub(super) fn insert_state(
        &mut self,
        lookup: Lookup<'_>,
        hasher: &RandomState,
        state: AnyState,
    ) {
        struct Insert<'a>(&'a RandomState, AnyState);

        impl OnEntry<()> for Insert<'_> {
            fn on<K: StoredKey, L, M: Stored<L>>(
                self,
                shard: &mut Shard,
                _machine: &M,
                key: K::Key<'_>,
                lookup: Lookup<'_>,
            ) {
                if let Some(state) = self.1.downcast() {
                    shard.insert::<K, L, M>(key, lookup, self.0, state);
                }
            }
        }

        self.on_entry(lookup, Insert(hasher, state));
    }

    fn insert<K: StoredKey, L, M: Stored<L>>(
        &mut self,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        hasher: &RandomState,
        state: M::State,
    ) {
        let known = lookup.known;
        known.keys.fetch_add(1, Ordering::Relaxed);
        let mut key = K::new(known.number, key);
        key.replace_used(true);
        M::Kept::table(K::tables(&mut self.tables)).insert_unique(
            lookup.entry_hash(),
            Entry { key, state: M::keep(state) },
            |entry| entry.hash(hasher),
        );
    }

    /// Calls `f` with a concurrency limit and its state in place. `None` if the key has no entry and
    /// the store is at its bound on keys, or if this is another limit.
    pub(super) fn slots<R>(
        &mut self,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        f: impl FnOnce(&Concurrent, &mut Option<ConcurrentState>) -> R,
    ) -> Option<R> {
        match lookup.key {
            Compact::Word(kind, word) => {
                self.slots_of::<WordKey, R>((kind, word), lookup, count, hasher, f)
            }
            Compact::Address(address) => {
                self.slots_of::<AddressKey, R>(address, lookup, count, hasher, f)
            }
            Compact::Bytes(kind, bytes) => {
                self.slots_of::<BytesKey, R>((kind, bytes), lookup, count, hasher, f)
            }
        }
    }

    fn slots_of<K: StoredKey, R>(
        &mut self,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        count: &Count,
        hasher: &RandomState,
        f: impl FnOnce(&Concurrent, &mut Option<ConcurrentState>) -> R,
    ) -> Option<R> {
        let AnyMachine::Concurrent(slots) = lookup.machine else { return None };
        let number = lookup.known.number;
        let table = &mut K::tables(&mut self.tables).holders;
        if let Some(entry) = table.find_mut(lookup.entry_hash(), |entry| entry.key.is(number, key))
        {
            let mut state = Some(std::mem::take(&mut entry.state));
            let result = f(slots, &mut state);
            entry.state = state.unwrap_or_default();
            return Some(result);
        }
        let mut state = None;
        if !count.take() {
            return None;
        }
        let result = f(slots, &mut state);
        match state {
            Some(state) => self.insert::<K, Whole, Concurrent>(key, lookup, hasher, state),
            None => {
                count.keys.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Some(result)
    }

    /// Calls `f` with the types of a key and of the state of its limit.
    fn on_entry<R>(&mut self, lookup: Lookup<'_>, f: impl OnEntry<R>) -> R {
        match lookup.key {
            Compact::Word(kind, word) => self.on_entry_of::<WordKey, R>((kind, word), lookup, f),
            Compact::Address(address) => self.on_entry_of::<AddressKey, R>(address, lookup, f),
            Compact::Bytes(kind, bytes) => {
                self.on_entry_of::<BytesKey, R>((kind, bytes), lookup, f)
            }
        }
    }

    fn on_entry_of<K: StoredKey, R>(
        &mut self,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        f: impl OnEntry<R>,
    ) -> R {
        match lookup.machine {
            AnyMachine::Gcra(machine) if lookup.has_no_parts => {
                f.on::<K, NoPart, _>(self, machine, key, lookup)
            }
            machine => {
                with_machine!(machine, machine => f.on::<K, Whole, _>(self, machine, key, lookup))
            }
        }
    }

    fn remove<K: StoredKey, L, M: Stored<L>>(
        &mut self,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
        count: &Count,
    ) {
        let number = lookup.known.number;
        let is_it = |entry: &Entry<K, M::Kept>| entry.key.is(number, key);
        let table = M::Kept::table(K::tables(&mut self.tables));
        if let Ok(found) = table.find_entry(lookup.entry_hash(), is_it) {
            found.remove();
            count.keys.fetch_sub(1, Ordering::Relaxed);
            lookup.known.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A function of a shard for any type of key and state.
trait OnEntry<R> {
    fn on<K: StoredKey, L, M: Stored<L>>(
        self,
        shard: &mut Shard,
        machine: &M,
        key: K::Key<'_>,
        lookup: Lookup<'_>,
    ) -> R;
}

#[cfg(test)]
mod tests {
    use super::super::stored_key::StoredKey as _;
    use crate::key::{Compact, Kind};
    use crate::keyed::lock;
    use crate::{ManualClock, Memory};

    /// A shard is cleaned in one step, so a hit that cleans would take long if a shard was large.
    #[test]
    fn a_key_under_the_limits_of_many_namespaces_is_in_many_shards() {
        const NAMESPACES: usize = 10_000;
        let store = Memory::builder().clock(ManualClock::default()).build();
        for number in 0..NAMESPACES {
            let limiter = store.limiter_in(&format!("tenant {number}"), "5/hour").unwrap();
            assert!(limiter.hit("shared").allowed());
        }
        let lengths = store.inner.shards.iter().map(|shard| lock(&shard.0).tables.len());
        let (all, longest) = lengths.fold((0, 0), |(all, most), len| (all + len, most.max(len)));
        assert_eq!(all, NAMESPACES);
        assert!(longest < NAMESPACES / 20, "{longest} of {NAMESPACES} entries are in one shard");
    }

    /// The cost of a hit must not depend on the number of limits that count the same key.
    #[test]
    fn an_entry_is_found_without_comparing_all_entries_of_the_same_key() {
        const LIMITS: usize = 100_000;
        let store = Memory::builder().clock(ManualClock::default()).build();
        let limiters: Vec<_> =
            (1..=LIMITS).map(|n| store.limiter(format!("1 per {n} minutes")).unwrap()).collect();
        limiters.iter().for_each(|limiter| assert!(limiter.hit("shared").allowed()));

        let key = (Kind::Plain, &b"shared"[..]);
        let compact = Compact::Bytes(key.0, key.1);
        let hash = compact.hash(&store.inner.hasher);
        let first = limiters[0].prepared().next().unwrap().lookup(hash, compact);
        let shard = store.inner.shard(first.shard_hash());
        let table = &shard.tables.bytes.one;
        assert_eq!(table.len(), LIMITS, "all limits of a key in a namespace must be in one shard");
        let compared = limiters.iter().map(|limiter| {
            let lookup = limiter.prepared().next().unwrap().lookup(hash, compact);
            let maybe = table.iter_hash(lookup.entry_hash());
            maybe.take_while(|entry| !entry.key.is(lookup.known.number, key)).count()
        });
        let wrong: usize = compared.sum();
        // A table compares only entries in one or two groups that have the same seven bits of the
        // hash.
        assert!(wrong < LIMITS, "{wrong} wrong entries were compared to find {LIMITS} entries");
    }
}
