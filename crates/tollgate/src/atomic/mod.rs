//! The store for many keys at high speed in little memory. It keeps fingerprints instead of keys,
//! and a hit is one compare-exchange.
//!
//! # Fingerprints of keys
//!
//! A key is identified by 64 bits: its [foldhash](https://docs.rs/foldhash) (quality variant) with
//! a random secret of the store. Each limit has a table of its own, so only keys of the same limit
//! can collide. With `k` keys of a limit that are not fresh, the probability that any two of them
//! share a counter is about `k² / 2^65`: 3 in 100 million for a million keys, 3 in 10,000 for a
//! hundred million. Two keys that collide are limited together. Neither gets more than the limit,
//! but one may be denied because of hits of the other.
//!
//! foldhash is fast and keyed but not cryptographic. A client that sees only decisions can find out
//! at most that two chosen keys collide, which at this probability takes more hits than it can make
//! in years. An attacker that can read the secret in the memory of the process could construct keys
//! that collide with a victim's key and exhaust its quota. Where that matters, use
//! [`Memory`](crate::Memory), which compares keys.
//!
//! # Supported limits
//!
//! The store supports all algorithms except the moving window, whose log does not fit a word. A
//! state is packed into a narrow word of 64 bits (16 bytes per slot) if it fits: GCRA limits and
//! windows with small quotas, both without a name. All other states are packed into a wide word of
//! 128 bits (32 bytes per slot). The table at the top of `pack.rs` in the source states the ranges.
//! The store cannot list its keys, and cannot report which keys it forgets.
//!
//! A narrow word counts up to 4,095, and its times end some 14 years after the store was created. A
//! charge that exceeds the largest count is reduced to the units that fit;
//! [`charged`](crate::Outcome::charged) and the receipt state their number. The times of a word
//! begin a year before the store was created. A hit at a time outside of that range counts as a hit
//! at the nearest time in it, and a warning is logged once. For example, a store whose clock is in
//! 1970 limits hits at a time in 2026, but their keys never become fresh again. So use a clock that
//! is near the times of the hits.
//!
//! A hit on several limits or keys first checks all of them, and then charges them in order. If
//! another caller uses up one of them meanwhile, the units that were charged are given back. So a
//! hit may be denied needlessly for a moment, but too many hits are never admitted.
//!
//! # The bound on keys
//!
//! As in [`Memory`](crate::Memory), keys without a slot share one overflow state per limit once the
//! store holds `max_keys`, and a new slot starts with a copy of that state. Of two callers with the
//! same new key, one may claim a slot while the other charges the overflow state. The first caller
//! reads the overflow state after its claim, and the second caller looks for a slot after its
//! charge. All four steps have one total order (`SeqCst`), so at least one of the callers sees what
//! the other one did.

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

use crate::algorithm::{Act, AnyMachine, Hit, KnownAct, Op, Part, hit_together};
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

/// A lock-free store that keeps a fingerprint and a packed state for every key. A key takes 34
/// bytes if its state fits a narrow word.
///
/// This is a handle: its clones share one store. [The module](self) describes fingerprints and the
/// supported limits.
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

/// A limit that was prepared by [`Atomic`].
#[derive(Clone, Debug)]
pub struct Prepared {
    known: Arc<Known>,
    machine: AnyMachine,
}

/// A limit and its states. All limiters that have prepared it share this value.
#[derive(Debug)]
struct Known {
    kept: ByWidth<Kept<u64>, Kept<u128>>,
    /// The machine as it was prepared last, for cleaning without a hit.
    latest: std::sync::Mutex<AnyMachine>,
}

/// The states of a limit, in words of one size.
#[derive(Debug)]
struct Kept<W: Word> {
    table: Table<W>,
    packing: Packing,
    /// The time of the next cleaning, in microseconds.
    clean_due: AtomicU64,
    /// The time at which to check the age of keys next, in microseconds, if ages are checked.
    age_due: Option<AtomicU64>,
}

/// The number of steps of a cleaning round that `prepare` does for a new limit. Cleaning a table
/// and forgetting its limit takes about four steps, so limits that are used only once are forgotten
/// faster than new ones are created.
const ROUND_STEPS: usize = 16;

/// The time for which an expired state (one that equals a fresh one) keeps its slot, in
/// microseconds. It is shorter if the clean period is shorter, and zero if half of the permitted
/// keys have a slot.
const GRACE: u64 = 10_000_000;

struct Inner<C> {
    clock: C,
    hasher: RandomState,
    registry: Registry<Known>,
    shared: Arc<Shared>,
    overflowed: AtomicUsize,
    made_at: Timestamp,
    /// The period in which tables are cleaned, in microseconds.
    clean_period: u64,
    key_older_than: Option<u64>,
    /// The time at which the next round begins, in microseconds. A round cleans all tables,
    /// including those that get no hits.
    round_due: AtomicU64,
    /// The number of the limit whose table is cleaned next. `None` if no round is in progress.
    round: std::sync::Mutex<Option<u32>>,
}

impl Atomic {
    /// Creates a store with the default settings: at most ten million keys, cleaned every minute.
    ///
    /// The first call in a process measures the speed of the processor's counter, see
    /// [`SystemClock::new`].
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// assert!(store.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Atomic::builder().build()
    }

    /// Returns a builder, to create a store with other settings.
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
    /// Returns how many keys have a slot, over all limits. A state that equals a fresh one counts
    /// until it is cleaned.
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

    /// Returns whether no key has a slot.
    ///
    /// ```
    /// assert!(tollgate::Atomic::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many limits the store knows. A limit that is no longer in use counts until it is
    /// cleaned.
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

    /// Returns how many hits were decided on a state that unknown keys share, because the store was
    /// at its bound on keys. It should stay zero.
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
    /// Forgets all states that equal a fresh one, and returns their number. Hits do the same in
    /// small steps.
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

    /// Returns the time for which an expired state keeps its slot, in microseconds.
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

    /// Returns the fingerprint of a long key. It is the fingerprint of its digest, as stores keep
    /// digests of long keys.
    #[cold]
    #[inline(never)]
    fn fingerprint_of_long(&self, key: KeyRef<'_>) -> u64 {
        OwnedKey::new(&key).as_key_ref().hash(&self.hasher).max(FIRST_FINGERPRINT)
    }

    /// Hits a key. For GCRA in whole microseconds most hits are completely inlined into the caller,
    /// so that fields of the decision that the caller does not read are never computed. All other
    /// hits call a function.
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
        let machine = *crate::keyed::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            On::new(self, kept, machine, now).clean_a_little()
        })
    }

    /// Returns whether to begin a round that cleans all tables. It returns true to one caller in
    /// each clean period.
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

    /// Does one small step of a cleaning round. A round cleans all tables, including those that get
    /// no hits, and forgets unused limits. Returns whether more steps are due now, or `None` if
    /// another thread is doing a step.
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

    /// Returns the limit in a namespace. Creates it if the store does not know it.
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
            // If a limit is used only once, no later hit cleans its table. So preparing a new limit
            // cleans the tables of older limits. Memory that another thread may still be reading is
            // freed later; the steps continue meanwhile.
            let mut steps = 0..ROUND_STEPS;
            let _ = steps.all(|_| {
                let has_garbage = self.shared.free_some();
                self.round_step(now) == Some(true) || has_garbage
            });
        }
        Ok(known)
    }

    /// Returns whether the state that keys without a slot share equals a fresh one.
    fn shares_nothing(&self, known: &Known, now: Timestamp) -> bool {
        let machine = *crate::keyed::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            let on = On::new(self, kept, machine, now);
            on.fate(Word::load(&kept.table.overflow, Ordering::SeqCst)) != Fate::Stays
        })
    }

    fn clean(&self, known: &Known, now: Timestamp) -> usize {
        let machine = *crate::keyed::lock(&known.latest);
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
        *crate::keyed::lock(&known.latest) = machine;
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
            // Atomic refuses bans.
            hit_together(items.iter().map(|item| Part::new(item.cost)), |item, act| {
                let item = &items[item];
                let now = match act {
                    // `now` may be long past, so a refund uses the current time: units that have
                    // expired since must not be given back.
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
