//! The store that keeps keys: all algorithms, exact under any number of threads.
//!
//! # Layout
//!
//! The hashes of the key and of the namespace select one of 256 shards, each of which has a lock.
//! The limits of a policy are therefore in one shard, and a policy is one step under one lock. A
//! hit on several keys locks their shards in order. Inside a shard an entry is found by the hash of
//! the key and the number of the limit (`entry.rs`). There is one table for each layout of keys and
//! states.
//!
//! Cleaning takes one shard at a time (`clean.rs`). Removing a state that equals a fresh one raises
//! the floor of its shard to the time at which the state became fresh. If a caller has read the
//! clock before that time and looks up the key afterwards, its state starts at the floor.
//!
//! # The bound on keys
//!
//! When the store has `max_keys` entries, the keys that have an entry keep their exact states, and
//! all other keys of a limit share one overflow state. A key that gets an entry while the overflow
//! state is not fresh starts with a copy of it. So a client that sends an unlimited number of new
//! keys cannot fill the memory, evict other keys or get additional units.

mod builder;
mod clean;
mod entry;
mod holds;
mod list;
mod permits;
mod shard;
mod stored_key;

use std::convert::Infallible;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::quality::RandomState;

pub use builder::MemoryBuilder;
pub use clean::Expired;
pub use list::KeyUsage;
pub use permits::Permit;

use crate::algorithm::{Act, AnyMachine, Hit, KnownAct, Op, hit_together};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::hold::table::HoldTable;
use crate::hold::{HoldCall, HoldId, HoldReply, HoldTerms, Holds};
use crate::key::{Compact, Key, KeyRef, OwnedKey};
use crate::keyed::{Count, Overflow, OwnLine, lock};
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::registry::{Full, Registry};
use crate::store::{HitItem, Store};
use crate::time::Timestamp;
use clean::BeforeClean;
use permits::Queues;
use shard::{Known, Lookup, Shard};

/// The number of shards. With a million keys each shard has some four thousand, so growing or
/// cleaning a shard takes well below half a millisecond.
const SHARDS: usize = 256;

/// The shard for each range of hashes. The last shard gets twice as many keys as the first. If all
/// shards got the same number of keys, all their tables would be full and double at the same time.
/// With unequal shards the tables double one after the other, so at any number of keys about the
/// same share of the memory is in use.
static SHARES: [u8; 8192] = {
    let mut shares = [0; 8192];
    // The share of a shard is counted in units of 2^-32 of a range. From one shard to the next it
    // grows by a factor of 2^(1/256).
    let (mut place, mut shard, mut share, mut end) = (0, 0_u8, 95_400_000_000_u64, 0_u64);
    while place < shares.len() {
        if shard < (SHARDS - 1) as u8 && (place as u64) << 32 >= end + share {
            end += share;
            share += share / 369;
            shard += 1;
        } else {
            shares[place] = shard;
            place += 1;
        }
    }
    shares
};

/// A store that keeps the keys and their states in this process. It supports all algorithms, can
/// list its keys, and can call a function when it forgets keys.
///
/// This is a handle: its clones share one store. The callers clean the store in small steps, so no
/// thread is needed.
///
/// ```
/// use tollgate::{Limit, Memory};
///
/// let limiter = Memory::new().limiter(Limit::per_second(10).burst(20))?;
/// assert!(limiter.hit("user:42").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
pub struct Memory<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

impl<C> Clone for Memory<C> {
    fn clone(&self) -> Self {
        Memory { inner: Arc::clone(&self.inner) }
    }
}

impl<C> std::fmt::Debug for Memory<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("keys", &self.len()).finish_non_exhaustive()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

/// A limit that was prepared by [`Memory`].
#[derive(Clone, Debug)]
pub struct Prepared {
    known: Arc<Known>,
    machine: AnyMachine,
    /// Whether the states of this limit never have fractions of a microsecond. False for a limit
    /// with a name, because its quota may change to one with fractions.
    has_no_parts: bool,
}

struct Inner<C> {
    clock: C,
    hasher: RandomState,
    shards: Box<[OwnLine<Mutex<Shard>>]>,
    registry: Registry<Known>,
    count: Count,
    /// The period in which all shards are cleaned once, in microseconds.
    clean_period: u64,
    clean_due: AtomicU64,
    clean_cursor: AtomicUsize,
    key_older_than: Option<u64>,
    before_clean: Option<BeforeClean>,
    holds: HoldTable,
    queues: Queues,
    hold_terms: HoldTerms,
}

impl Memory {
    /// Creates a store with the default settings: at most ten million keys, cleaned every minute.
    ///
    /// The first call in a process measures the speed of the processor's counter, see
    /// [`SystemClock::new`].
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// assert!(store.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Memory::builder().build()
    }

    /// Returns a builder, to create a store with other settings.
    ///
    /// ```
    /// use std::time::Duration;
    /// let period = Duration::from_secs(5);
    /// let store = tollgate::Memory::builder().max_keys(1).clean_period(period).build();
    /// let limiter = store.limiter("1/second")?;
    /// assert!(limiter.hit("a").allowed());
    /// assert!(limiter.hit("b").allowed());
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn builder() -> MemoryBuilder {
        MemoryBuilder::new()
    }
}

crate::store::limiter_methods!(Memory);

impl<C: Clock + 'static> Memory<C> {
    /// Prepares limits for [holds](crate::hold) and permits.
    ///
    /// # Errors
    /// Fails if a limit is not valid.
    ///
    /// See the examples of [`Holds`] and [`Permit`].
    pub fn holds<P>(&self, policy: P) -> Result<Holds<Self>, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        Holds::new(self, "", policy)
    }

    /// Prepares limits for holds in a namespace.
    ///
    /// # Errors
    /// Fails if a limit is not valid.
    pub fn holds_in<P>(&self, namespace: &str, policy: P) -> Result<Holds<Self>, Error>
    where
        P: TryInto<Policy>,
        Error: From<P::Error>,
    {
        Holds::new(self, namespace, policy)
    }

    /// Forgets the states that equal a fresh one, one shard after the other, and frees unused
    /// memory. Returns the number of states forgotten. Hits do the same in small steps once in a
    /// clean period, but keep the memory for new keys.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// assert_eq!(store.clean(), 0);
    /// ```
    pub fn clean(&self) -> usize {
        self.inner.clean_all(self.inner.clock.now())
    }
}

impl<C> Memory<C> {
    /// Returns how many keys have an entry, over all limits. A state that equals a fresh one counts
    /// until it is cleaned.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// store.limiter("1/second")?.hit("a");
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.count.keys.load(Ordering::Relaxed)
    }

    /// Returns whether no key has an entry.
    ///
    /// ```
    /// assert!(tollgate::Memory::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many limits the store knows. A limit that is no longer in use counts until it is
    /// cleaned.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// let limiter = store.limiter("1/second")?;
    /// assert_eq!(store.limits(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn limits(&self) -> usize {
        self.inner.registry.len()
    }

    /// Returns how many hits were decided on a state that unknown keys share, because the store was
    /// at its bound on keys. It should stay zero.
    ///
    /// ```
    /// assert_eq!(tollgate::Memory::new().overflowed(), 0);
    /// ```
    #[must_use]
    pub fn overflowed(&self) -> usize {
        self.inner.count.overflowed.load(Ordering::Relaxed)
    }

    /// Forgets all keys of all limits in a namespace.
    ///
    /// ```
    /// let store = tollgate::Memory::new();
    /// let limiter = store.limiter_in("acme", "1/hour")?;
    /// limiter.hit("a");
    /// store.clear_namespace("acme");
    /// assert!(limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn clear_namespace(&self, namespace: &str) {
        for known in self.inner.registry.in_namespace(namespace) {
            self.inner.clear(&known);
        }
        self.inner.holds.clear_namespace(namespace);
    }
}

impl<C> Inner<C> {
    #[inline]
    fn shard_index(&self, hash: u64) -> usize {
        // hashbrown uses the lowest bits and the highest seven bits of the hash to find entries, so
        // the shard is selected by other bits.
        usize::from(SHARES[(hash >> 44) as usize % SHARES.len()])
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.shard_index(hash)].0)
    }

    // These functions are always inlined. Otherwise the compiler would call them in a program that
    // uses two types of clock.
    #[inline(always)]
    fn act(
        &self,
        lookup: Lookup<'_>,
        shard: &mut Shard,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        shard.act(lookup, &self.count, &self.hasher, now, act)
    }

    fn clear(&self, known: &Known) {
        for shard in &self.shards {
            let mut shard = lock(&shard.0);
            let before = shard.tables.len();
            shard.tables.remove_limit(known.number);
            let removed = before - shard.tables.len();
            self.count.keys.fetch_sub(removed, Ordering::Relaxed);
            known.keys.fetch_sub(removed, Ordering::Relaxed);
        }
        known.overflow.clear();
    }
}

impl Prepared {
    #[inline(always)]
    fn lookup<'a>(&'a self, hash: u64, key: Compact<'a>) -> Lookup<'a> {
        let Prepared { known, machine, has_no_parts } = self;
        Lookup { known, machine, hash, key, has_no_parts: *has_no_parts }
    }
}

impl<C: Clock + 'static> Store for Memory<C> {
    type Prepared = Prepared;

    #[inline]
    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        let machine = AnyMachine::new(limit);
        let known = || self.inner.known(namespace, limit, machine);
        let known = known().or_else(|full| {
            if !self.inner.clean_to_make_room() {
                return Err(full);
            }
            known()
        })?;
        *lock(&known.latest) = (Arc::new(limit.clone()), machine);
        Ok(Prepared::new(known, machine, limit))
    }

    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        now: Timestamp,
    ) -> Result<HoldReply, Error> {
        self.hold_now(namespace, id, call, now)
    }

    fn keeps_holds(&self) -> Result<(), Error> {
        Ok(())
    }

    fn apply(&self, prepared: &Prepared, key: KeyRef<'_>, now: Timestamp, op: Op) -> Outcome {
        let mut room = None;
        key.shorten(&mut room)
            .with_compact(|key| self.inner.act_alone(prepared, key, || now, Act::Op(op)))
    }

    #[inline]
    fn hit<K: Key + ?Sized>(
        &self,
        prepared: &Prepared,
        key: &K,
        _hint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Outcome {
        key.with_key(|key| {
            if key.is_long() {
                return self.hit_long(prepared, key, Some(now), cost);
            }
            key.with_compact(|key| self.inner.act_alone(prepared, key, || now, Hit(cost)))
        })
    }

    #[inline]
    fn hit_now<K: Key + ?Sized>(&self, prepared: &Prepared, key: &K, cost: u64) -> Outcome {
        key.with_key(|key| {
            if key.is_long() {
                return self.hit_long(prepared, key, None, cost);
            }
            key.with_compact(|key| self.inner.act_alone(prepared, key, || self.now(), Hit(cost)))
        })
    }

    fn hit_together(&self, items: &[HitItem<'_, Prepared>], now: Timestamp) -> Vec<Outcome> {
        if items.iter().any(|item| item.key.is_long()) {
            let keys: Vec<_> = items.iter().map(|item| OwnedKey::new(&item.key)).collect();
            let short = items.iter().zip(&keys);
            let short: Vec<_> =
                short.map(|(item, key)| HitItem { key: key.as_key_ref(), ..*item }).collect();
            return self.inner.hit_together(&short, now);
        }
        self.inner.hit_together(items, now)
    }

    fn clear(&self, prepared: &Prepared) {
        self.inner.clear(&prepared.known);
    }

    fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<C: Clock + 'static> Memory<C> {
    /// Hits a long key. It is a separate function, so that hits of short keys only pay for the
    /// check of the length.
    #[cold]
    #[inline(never)]
    fn hit_long(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        at: Option<Timestamp>,
        cost: u64,
    ) -> Outcome {
        self.apply(prepared, key, at.unwrap_or_else(|| self.now()), Op::Hit(cost))
    }
}

impl<C: Clock> Inner<C> {
    /// Returns the entry of a limit, which is made if the store does not know the limit.
    fn known(
        &self,
        namespace: &str,
        limit: &Limit,
        machine: AnyMachine,
    ) -> Result<Arc<Known>, Full> {
        let (known, _) = self.registry.entry(namespace, limit, |number| Known {
            number,
            namespace: namespace.into(),
            spread: self.hasher.hash_one(namespace),
            latest: Mutex::new((Arc::new(limit.clone()), machine)),
            keys: AtomicUsize::new(0),
            overflow: Overflow::default(),
        })?;
        Ok(known)
    }

    #[inline(always)]
    fn act_alone(
        &self,
        prepared: &Prepared,
        key: Compact<'_>,
        now: impl FnOnce() -> Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        // The hash is computed before the clock is read, because the processor then executes both
        // at the same time.
        let hash = key.hash(&self.hasher);
        let (lookup, now) = (prepared.lookup(hash, key), now());
        let decision = self.act(lookup, &mut self.shard(lookup.shard_hash()), now, act);
        self.clean_if_due(now);
        decision
    }

    fn hit_together(&self, items: &[HitItem<'_, Prepared>], now: Timestamp) -> Vec<Outcome> {
        let index = |item: &HitItem<'_, Prepared>| {
            self.shard_index(item.key.hash(&self.hasher) ^ item.prepared.known.spread)
        };
        let first_index = items.first().map_or(0, index);
        let parts = items.iter().map(|item| item.prepared.machine.part(item.cost));
        let Ok(outcomes): Result<_, Infallible> =
            if items.iter().all(|item| index(item) == first_index) {
                // All items are in one shard, as the limits of a policy are: one lock is enough.
                let shard = &mut *lock(&self.shards[first_index].0);
                hit_together(parts, |item, act| Ok(self.act_on(shard, &items[item], now, act)))
            } else {
                let mut indices: Vec<usize> = items.iter().map(index).collect();
                indices.sort_unstable();
                indices.dedup();
                let mut shards: Vec<_> = indices.iter().map(|i| lock(&self.shards[*i].0)).collect();
                hit_together(parts, |item, act| {
                    let item = &items[item];
                    let shard = indices.binary_search(&index(item)).unwrap_or_default();
                    Ok(self.act_on(&mut shards[shard], item, now, act))
                })
            };
        self.clean_if_due(now);
        outcomes
    }

    /// Acts on a key whose shard is locked.
    #[inline(never)]
    fn act_on(
        &self,
        shard: &mut Shard,
        item: &HitItem<'_, Prepared>,
        now: Timestamp,
        act: Act,
    ) -> Outcome {
        item.key.with_compact(|key| {
            let lookup = item.prepared.lookup(key.hash(&self.hasher), key);
            self.act(lookup, shard, now, act)
        })
    }
}
