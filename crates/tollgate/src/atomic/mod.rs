//! The store for many keys at high speed in little memory: fingerprints instead of keys, one
//! compare-exchange for a hit.
//!
//! # What stands for a key
//!
//! A key is known by 64 bits: its [foldhash](https://docs.rs/foldhash) (quality variant) under a
//! secret that is drawn when the store is made. Each limit has a table of its own, so only keys of
//! one limit can collide. With `k` live keys of a limit some two of them share a counter with a
//! probability of about `k² / 2^65`: 3 in 100 million for a million keys, 3 in 10,000 for a hundred
//! million. Two keys that collide are limited together: neither gets more than the limit, one may
//! be refused for what the other did.
//!
//! foldhash is fast and keyed but not cryptographic. Who sees only decisions learns at most that
//! two chosen keys collide, which at these odds takes more tries than there are hits in years; who
//! could read the secret in the memory of the process could make keys that collide with a victim's
//! and exhaust its quota. Where that matters, use [`Memory`](crate::Memory), which compares keys.
//!
//! # What it holds
//!
//! All algorithms but the moving window, whose log does not fit a word; the packing and its ranges
//! are in the table at the top of `pack.rs` in the source: a narrow word of 64 bits (16 bytes a
//! slot) where the exact state fits, which is GCRA without a name and small window quotas, and a
//! wide one of 128 bits (32 bytes a slot) for the rest. It cannot list keys and cannot tell which
//! it forgets.
//!
//! A narrow word counts to 4,095 and a time in it lies less than 14 years after the store was made.
//! A charge that goes beyond what the word can count is cut down to what fits:
//! [`charged`](crate::Outcome::charged) and the receipt say how much that was. Time stands still
//! outside of the span that the word can hold, which starts a year before the store was made, and a
//! warning is logged once: so a store on a clock at 1970 limits hits that are given a time in 2026,
//! but their keys do not become fresh again. Give the store a clock near the times of its hits.
//!
//! Several limits and several keys are asked first, then charged in order; when one of them was
//! lost to another caller meanwhile, what was charged is given back. That may deny too much for a
//! moment and never admits too much.
//!
//! # The bound on keys
//!
//! As in [`Memory`](crate::Memory), keys without a slot share one overflow state per limit once the
//! store holds `max_keys`, and a new slot starts with a copy of that state. Two callers with the
//! same new key could meet here: one claims a slot, the other charges the overflow state. The first
//! looks at the overflow state after its claim, the second looks for a slot after its charge, all
//! in one order (`SeqCst`). So at least one of them sees the other.

mod builder;
mod era;
mod on;
mod pack;
mod sync;
mod table;
mod word;

pub(crate) mod cell;

pub use builder::AtomicBuilder;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;

use crate::algorithm::{Act, AnyMachine, Hit, KnownAct, Op, hit_together};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::key::{Key, KeyRef, OwnedKey};
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::registry::Registry;
use crate::store::{HitItem, Store};
use crate::time::Timestamp;
use on::{On, act_on};
use pack::{ByWidth, Packing, with_packed};
use table::{FIRST_FINGERPRINT, Fate, Shared, Table};
use word::Word;

/// Keeps a fingerprint and a packed state for every key: lock-free, 34 bytes a key where the state
/// is one number.
///
/// A handle: clones share one store. See [the module](self) for what stands for a key and what it
/// holds.
///
/// ```
/// use tollgate::{Atomic, Limit};
///
/// let limiter = Atomic::new().limiter(Limit::per_second(10).burst(20))?;
/// assert!(limiter.hit("user:42").allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
pub struct Atomic<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

impl<C> Clone for Atomic<C> {
    fn clone(&self) -> Self {
        Atomic { inner: Arc::clone(&self.inner) }
    }
}

impl<C> std::fmt::Debug for Atomic<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Atomic").field("keys", &self.len()).finish_non_exhaustive()
    }
}

impl Default for Atomic {
    fn default() -> Self {
        Atomic::new()
    }
}

/// A limit as [`Atomic`] holds it.
#[derive(Clone, Debug)]
pub struct Prepared {
    known: Arc<Known>,
    machine: AnyMachine,
}

/// A limit and its states, shared by all who prepared it.
#[derive(Debug)]
struct Known {
    kept: ByWidth<Kept<u64>, Kept<u128>>,
    /// The machine as it was prepared last, for cleaning by hand.
    latest: std::sync::Mutex<AnyMachine>,
}

/// The states of a limit, in words of one size.
#[derive(Debug)]
struct Kept<W: Word> {
    table: Table<W>,
    packing: Packing,
    /// When to clean next.
    clean_due: AtomicU64,
    /// When to look at the age of keys next, if at all.
    age_due: Option<AtomicU64>,
}

/// How many steps of a cleaning round `prepare` does for a new limit. To clean a table and forget
/// its limit takes about four, so limits that are used once are forgotten faster than they are
/// made.
const ROUND_STEPS: usize = 16;

/// How long a state that has run out keeps its slot, in microseconds, unless the user cleans more
/// often or half of the permitted keys are there.
const GRACE: u64 = 10_000_000;

struct Inner<C> {
    clock: C,
    hasher: RandomState,
    registry: Registry<Known>,
    shared: Arc<Shared>,
    overflowed: AtomicUsize,
    made_at: Timestamp,
    /// Microseconds.
    clean_period: u64,
    key_older_than: Option<u64>,
    /// When the next round begins that cleans all tables, also those that nobody hits.
    round_due: AtomicU64,
    /// The number of the limit whose table is next, during such a round.
    round: std::sync::Mutex<Option<u32>>,
}

impl Atomic {
    /// A store with the defaults: ten million keys, cleaned every minute.
    ///
    /// The first store of a process measures the processor's counter, see [`SystemClock::new`].
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// assert!(store.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Atomic::builder().build()
    }

    /// A store with settings of your own.
    ///
    /// ```
    /// let store = tollgate::Atomic::builder().max_keys(1_000).build();
    /// ```
    pub fn builder() -> AtomicBuilder {
        AtomicBuilder::new()
    }
}

crate::store::limiter_methods!(Atomic);

impl<C> Atomic<C> {
    /// How many keys have a slot, over all limits. States that have run out count until they are
    /// cleaned.
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// store.limiter("1/second")?.hit("a");
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.shared.keys.load(Ordering::Relaxed)
    }

    /// True when no key has a slot.
    ///
    /// ```
    /// assert!(tollgate::Atomic::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many limits it knows. Those that are not in use any more count until they are cleaned.
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// let limiter = store.limiter("1/second")?;
    /// assert_eq!(store.limits(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn limits(&self) -> usize {
        self.inner.registry.len()
    }

    /// How many hits were decided on a state that unknown keys share, because the store was at its
    /// bound. Should stay zero.
    ///
    /// ```
    /// assert_eq!(tollgate::Atomic::new().overflowed(), 0);
    /// ```
    #[must_use]
    pub fn overflowed(&self) -> usize {
        self.inner.overflowed.load(Ordering::Relaxed)
    }
}

impl<C: Clock + 'static> Atomic<C> {
    /// Forgets the states that equal a fresh one, all at once; how many went. Callers do the same
    /// in small steps.
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// assert_eq!(store.clean(), 0);
    /// ```
    pub fn clean(&self) -> usize {
        self.inner.clean_all(self.inner.clock.now())
    }

    /// Forgets all keys of all limits in a namespace.
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// let limiter = store.limiter_in("acme", "1/hour")?;
    /// limiter.hit("a");
    /// store.clear_namespace("acme");
    /// assert!(limiter.hit("a").allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn clear_namespace(&self, namespace: &str) {
        for known in self.inner.registry.in_namespace(namespace) {
            known.clear();
        }
    }
}

impl Known {
    fn is_empty(&self) -> bool {
        match &self.kept {
            ByWidth::Narrow(kept) => kept.table.len() == 0,
            ByWidth::Wide(kept) => kept.table.len() == 0,
        }
    }

    fn clear(&self) {
        match &self.kept {
            ByWidth::Narrow(kept) => kept.table.clear(),
            ByWidth::Wide(kept) => kept.table.clear(),
        }
    }
}

impl<C: Clock> Inner<C> {
    fn keep<W: Word>(&self, limit: &Limit) -> Kept<W> {
        let now = self.clock.now();
        let due = |period| AtomicU64::new(now.plus(period).as_micros());
        Kept {
            table: Table::new(Arc::clone(&self.shared), now.plus(self.clean_period).as_micros()),
            packing: Packing::new(limit, self.made_at),
            clean_due: due(self.clean_period),
            age_due: self.key_older_than.map(due),
        }
    }

    /// How long a state that has run out keeps its slot, in microseconds.
    fn grace(&self) -> u64 {
        GRACE.min(self.clean_period)
    }

    #[inline(always)]
    fn fingerprint(&self, key: KeyRef<'_>) -> u64 {
        if key.is_long() {
            return self.fingerprint_of_long(key);
        }
        key.hash(&self.hasher).max(FIRST_FINGERPRINT)
    }

    /// Of the digest, which is what stands for a long key wherever keys are kept.
    #[cold]
    #[inline(never)]
    fn fingerprint_of_long(&self, key: KeyRef<'_>) -> u64 {
        OwnedKey::new(&key).as_key_ref().hash(&self.hasher).max(FIRST_FINGERPRINT)
    }

    /// A hit. For the usual limit most are done right here, inlined into the caller: what it does
    /// not read of the decision is never made. All else is a call away.
    #[inline(always)]
    fn hit(&self, prepared: &Prepared, fingerprint: u64, now: Timestamp, cost: u64) -> Outcome {
        if let AnyMachine::Gcra(machine) = &prepared.machine
            && machine.is_whole()
            && let ByWidth::Narrow(kept) = &prepared.known.kept
            && let Some(decision) = On::new(self, kept, machine, now).try_hit(fingerprint, cost)
        {
            return decision;
        }
        self.act(prepared, fingerprint, now, Hit(cost))
    }

    #[inline(never)]
    fn act(
        &self,
        prepared: &Prepared,
        fingerprint: u64,
        now: Timestamp,
        act: impl KnownAct,
    ) -> Outcome {
        with_packed!(&prepared.known.kept, &prepared.machine, (kept, machine) => {
            act_on(self, kept, machine, fingerprint, now, act)
        })
    }

    fn clean_a_little(&self, known: &Known, now: Timestamp) -> bool {
        let machine = *crate::registry::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            On::new(self, kept, machine, now).clean_a_little()
        })
    }

    /// Once in a clean period somebody looks after the tables that nobody hits.
    fn round_is_due(&self, now: Timestamp) -> bool {
        let next = now.plus(self.clean_period).as_micros();
        let is_due = |due| (now.as_micros() >= due).then_some(next);
        self.round_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }

    fn clean_all(&self, now: Timestamp) -> usize {
        let mut gone = 0;
        for number in 0..self.registry.numbers() {
            let known = u32::try_from(number).ok().and_then(|n| self.registry.by_number(n));
            gone += known.map_or(0, |known| self.clean(&known, now));
            self.forget_limit(number, now);
        }
        gone
    }

    /// Forgets the limit of this number if it has neither a limiter nor a key.
    fn forget_limit(&self, number: usize, now: Timestamp) {
        self.registry.forget(number, |known| known.is_empty() && self.shares_nothing(known, now));
    }

    /// One small step of a cleaning round, which cleans all tables, also those that nobody hits,
    /// and forgets unused limits. Returns whether more steps are due now; `None` if another thread
    /// is doing a step.
    fn round_step(&self, now: Timestamp) -> Option<bool> {
        let mut round = self.round.try_lock().ok()?;
        if round.is_none() && !self.round_is_due(now) {
            return Some(false);
        }
        let number = round.unwrap_or(0);
        let known = self.registry.by_number(number);
        if known.is_some_and(|known| self.clean_a_little(&known, now)) {
            *round = Some(number);
            return Some(true);
        }
        self.forget_limit(number as usize, now);
        *round = Some(number + 1).filter(|next| (*next as usize) < self.registry.numbers());
        Some(round.is_some())
    }

    /// The limit in a namespace; it may have to be made.
    fn known(
        &self,
        namespace: &str,
        limit: &Limit,
        machine: AnyMachine,
    ) -> Result<Arc<Known>, Error> {
        let width = pack::width(limit)?;
        let entry = || {
            self.registry.entry(namespace, limit, |_| Known {
                kept: match width {
                    ByWidth::Narrow(()) => ByWidth::Narrow(self.keep(limit)),
                    ByWidth::Wide(()) => ByWidth::Wide(self.keep(limit)),
                },
                latest: std::sync::Mutex::new(machine),
            })
        };
        let now = self.clock.now();
        let (known, is_new) = entry().or_else(|full| {
            if !self.registry.is_cleaning_due(now, self.clean_period / 16) {
                return Err(full);
            }
            self.clean_all(now);
            entry()
        })?;
        if is_new {
            // A limit that is used once gets no more hits that would clean its table, so the
            // preparation of new limits cleans the older ones. Old memory may have to wait for a
            // reader on another thread: cleaning goes on meanwhile.
            let mut steps = 0..ROUND_STEPS;
            let _ = steps.all(|_| {
                let has_garbage = self.shared.free_some();
                self.round_step(now) == Some(true) || has_garbage
            });
        }
        Ok(known)
    }

    /// Whether the state that keys without a slot share is as good as none.
    fn shares_nothing(&self, known: &Known, now: Timestamp) -> bool {
        let machine = *crate::registry::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            let on = On::new(self, kept, machine, now);
            on.fate(Word::load(&kept.table.overflow, Ordering::SeqCst)) != Fate::Stays
        })
    }

    fn clean(&self, known: &Known, now: Timestamp) -> usize {
        let machine = *crate::registry::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            On::new(self, kept, machine, now).clean()
        })
    }
}

impl<C: Clock + 'static> Store for Atomic<C> {
    type Prepared = Prepared;

    #[inline]
    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        let machine = AnyMachine::new(limit);
        let known = self.inner.known(namespace, limit, machine)?;
        *crate::registry::lock(&known.latest) = machine;
        Ok(Prepared { known, machine })
    }

    fn apply(&self, prepared: &Prepared, key: KeyRef<'_>, now: Timestamp, op: Op) -> Outcome {
        self.inner.act(prepared, self.inner.fingerprint(key), now, Act::Op(op))
    }

    #[inline(always)]
    fn hit<K: Key + ?Sized>(
        &self,
        prepared: &Prepared,
        _key: &K,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Outcome {
        self.inner.hit(prepared, fingerprint, now, cost)
    }

    #[inline]
    fn hint<K: Key + ?Sized>(&self, prepared: &Prepared, key: &K) -> u64 {
        let fingerprint = key.with_key(|key| self.inner.fingerprint(key));
        match &prepared.known.kept {
            ByWidth::Narrow(kept) => kept.table.prefetch(fingerprint),
            ByWidth::Wide(kept) => kept.table.prefetch(fingerprint),
        }
        fingerprint
    }

    fn hit_together(&self, items: &[HitItem<'_, Prepared>], now: Timestamp) -> Vec<Outcome> {
        let Ok(outcomes): Result<_, Infallible> =
            hit_together(items.iter().map(|item| item.cost), |item, act| {
                let item = &items[item];
                let now = match act {
                    // Not as of `now`, which may be long past: what has run off since must not be
                    // given back.
                    Act::Op(Op::Refund(_)) => now.max(self.inner.clock.now()),
                    _ => now,
                };
                Ok(self.inner.act(item.prepared, self.inner.fingerprint(item.key), now, act))
            });
        outcomes
    }

    fn clear(&self, prepared: &Prepared) {
        prepared.known.clear();
    }

    fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}
