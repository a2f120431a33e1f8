//! The store for the highest speed and the least memory: fingerprints instead of keys, one compare-exchange for a hit.
//!
//! # What stands for a key
//!
//! A key is known by 64 bits: its [foldhash](https://docs.rs/foldhash) (quality variant) under a secret that is drawn when the store is made. Each
//! limit has a table of its own, so only keys of one limit can collide. With `k` live keys of a limit some two of them share a counter with a
//! probability of about `k² / 2^65`: 3 in 100 million for a million keys, 3 in 10,000 for a hundred million. Two keys that collide are limited
//! together: neither gets more than the limit, one may be refused for what the other did.
//!
//! foldhash is fast and keyed but not cryptographic. Who sees only decisions learns at most that two chosen keys collide, which at these odds takes more
//! tries than there are hits in years; who could read the secret in the memory of the process could make keys that collide with a victim's and exhaust
//! its quota. Where that matters, use [`Memory`](crate::Memory), which compares keys.
//!
//! # What it holds
//!
//! All algorithms but the moving window, whose log does not fit a word; the packing and its ranges are in the table at the top of `pack.rs` in the
//! source: a narrow word of 64 bits (16 bytes a slot) where the exact state fits, which is GCRA without a name and small window quotas, and a wide one of
//! 128 bits (32 bytes a slot) for the rest. It cannot list keys and cannot tell which it forgets.
//!
//! Several limits and several keys are asked first, then charged in order; when one of them was lost to another caller meanwhile, what was charged
//! is given back. That may deny too much for a moment and never admits too much.

mod pack;
mod sync;
mod table;
mod word;

pub(crate) mod cell;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use foldhash::quality::RandomState;

use crate::algorithm::{AnyMachine, Op, Step};
use crate::clock::{Clock, SystemClock};
use crate::decision::{Decision, Source};
use crate::error::Error;
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::registry::Registry;
use crate::store::{Act, AnyAct, Hit, Part, Store, together};
use crate::time::{Timestamp, micros_up};
use pack::{ByWidth, Pack, Packing, with_packed};
use sync::{Guard, pin};
use table::{FIRST_FINGERPRINT, Fate, Full, Move, Next, Shared, Table};
use word::Word;

/// Keeps a fingerprint and a packed state for every key: lock-free, 34 bytes a key where the state is one number.
///
/// A handle: clones share one store. See [the module](self) for what stands for a key and what it holds.
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
    /// When to look after tables that nobody hits, and those that are still to be looked after.
    round_due: AtomicU64,
    idle: std::sync::Mutex<VecDeque<Arc<Known>>>,
}

impl Atomic {
    /// A store with the defaults: ten million keys, cleaned every minute.
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
        AtomicBuilder {
            clock: SystemClock::new(),
            max_keys: crate::DEFAULT_MAX_KEYS,
            clean_period: crate::DEFAULT_CLEAN_PERIOD,
            key_older_than: None,
        }
    }
}

crate::store::limiter_methods!(Atomic);

impl<C> Atomic<C> {
    /// How many keys have a slot, over all limits. States that have run out count until they are cleaned.
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

    /// How many hits were decided on a state that unknown keys share, because the store was at its bound. Should stay zero.
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
    /// Forgets the states that equal a fresh one, all at once; how many went. Callers do the same in small steps.
    ///
    /// ```
    /// let store = tollgate::Atomic::new();
    /// assert_eq!(store.clean(), 0);
    /// ```
    #[allow(clippy::must_use_candidate)]
    pub fn clean(&self) -> usize {
        let now = self.inner.clock.now();
        let gone = self.inner.registry.all().iter().map(|known| self.inner.clean(known, now)).sum();
        self.inner.forget_limits(now);
        gone
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

impl<W: Word> Kept<W> {
    /// Whether cleaning is due, or will be in less than `early`; to one caller, after which it is due in a `period`.
    fn is_clean_due(&self, now: Timestamp, early: u64, period: u64) -> bool {
        let next = now.plus(period).as_micros();
        let is_due = |due| (now.plus(early).as_micros() >= due).then_some(next);
        self.clean_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }
}

/// One machine on one table.
struct On<'a, W: Word, M, C> {
    store: &'a Inner<C>,
    kept: &'a Kept<W>,
    machine: &'a M,
    now: Timestamp,
}

impl<W: Word, M: Pack<W>, C: Clock> On<'_, W, M, C> {
    #[inline(always)]
    fn state(&self, word: W) -> Option<M::State> {
        word.payload().map(|payload| self.machine.unpack(&self.kept.packing, payload))
    }

    #[inline(always)]
    fn word(&self, state: Option<&M::State>) -> W {
        let pack = |state| W::present(self.machine.pack(&self.kept.packing, state));
        state.map_or(W::CLEARED, |state| pack(state).with_used(true))
    }

    /// Judged by the caller's time and never by one ahead of the store's own clock.
    fn fate(&self, word: W) -> Fate {
        let fresh_at = self.state(word).map_or(Timestamp::EPOCH, |s| self.machine.fresh_at(&s));
        if fresh_at <= self.now && fresh_at <= self.store.clock.now() {
            Fate::FreshSince(fresh_at.as_micros())
        } else {
            Fate::Stays
        }
    }

    /// One step on one word. A key without a state starts no earlier than the floor.
    #[inline(always)]
    fn step(&self, word: W, act: impl Act) -> (Next<W>, (Step, Option<M::State>)) {
        let mut state = self.state(word);
        let start = match state {
            Some(_) => self.now,
            None => self.now.max(Timestamp::from_micros(self.kept.table.floor())),
        };
        let step = act.on(self.machine, &mut state, start);
        let next = if step.changed {
            Next::Put(self.word(state.as_ref()))
        } else if self.kept.age_due.is_some() && state.is_some() && !word.is_used() {
            // Refused is used, too: who knocks in vain is not forgotten for that.
            Next::Put(word.with_used(true))
        } else {
            Next::Keep
        };
        (next, (step, state))
    }

    #[inline(always)]
    fn decision(&self, (step, state): (Step, Option<M::State>)) -> Decision {
        Decision::new(self.machine, state.as_ref(), self.now, step)
    }

    /// One attempt at the word of a key; nothing if that does not settle it. No loop: what a loop keeps at hand would cost every hit.
    #[inline(always)]
    fn try_once(&self, guard: &Guard, fingerprint: u64, act: impl Act) -> Option<Decision> {
        let cell = self.kept.table.find(guard, fingerprint)?;
        let word = W::load(cell, Ordering::Acquire);
        if word == W::VOID || word.is_frozen() {
            return None;
        }
        let (next, done) = self.step(word, act);
        if let Next::Put(new) = next {
            W::replace(cell, word, new).ok()?;
        }
        Some(self.decision(done))
    }

    /// For a key without a slot, during a move, and when somebody else was faster.
    fn act_surely(&self, guard: &Guard, fingerprint: u64, act: AnyAct) -> Decision {
        loop {
            let mut step = |word| self.step(word, act);
            match self.kept.table.update(guard, fingerprint, &|w| self.fate(w), &mut step) {
                Ok(done) => return self.decision(done),
                Err(Full) => {
                    if let Some(decision) = self.act_on_overflow(fingerprint, act) {
                        return decision;
                    }
                }
            }
        }
    }

    /// Decides on the state that keys without a slot share; nothing if the key got a slot meanwhile.
    #[cold]
    fn act_on_overflow(&self, fingerprint: u64, act: AnyAct) -> Option<Decision> {
        let cell = &self.kept.table.overflow;
        let mut word = W::load(cell, Ordering::SeqCst);
        let done = loop {
            let (next, done) = self.step(word, act);
            let Next::Put(new) = next else { break done };
            match W::replace_in_order(cell, word, new) {
                Ok(()) => break done,
                Err(found) => word = found,
            }
        };
        let decision = self.decision(done);
        if self.kept.table.has_slot(fingerprint, &|w| self.fate(w)) {
            // Whoever claimed it may have looked here before we charged: take it back and ask the slot.
            self.refund_overflow(&decision);
            return None;
        }
        self.store.overflowed.fetch_add(1, Ordering::Relaxed);
        self.tidy_at_bound();
        Some(decision.from_source(Source::Overflow))
    }

    fn refund_overflow(&self, decision: &Decision) {
        let cell = &self.kept.table.overflow;
        let mut word = W::load(cell, Ordering::SeqCst);
        while let Next::Put(new) = self.step(word, AnyAct::Op(Op::Refund(decision.receipt()))).0 {
            match W::replace_in_order(cell, word, new) {
                Ok(()) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Room may be had by forgetting; looking for it is not worth it for every hit of an attacker.
    fn tidy_at_bound(&self) {
        let period = self.store.clean_period;
        let now = self.now.min(self.store.clock.now());
        if self.kept.is_clean_due(now, period - period / 16, period) {
            self.begin_move_if_due();
        }
    }

    /// One small step of housekeeping: frees a piece of memory, or goes on with cleaning a table that nobody hits, or begins a move here. It
    /// stays due as long as there is more to do.
    fn maintain(&self) {
        if self.store.shared.free_some() {
            return;
        }
        // A caller may have made up a time far ahead.
        let now = self.now.min(self.store.clock.now());
        let Ok(mut idle) = self.store.idle.try_lock() else { return };
        if let Some(known) = idle.front() {
            if !self.store.clean_a_little(known, now) {
                idle.pop_front();
            }
        } else if self.kept.is_clean_due(now, 0, self.store.clean_period) {
            self.begin_move_if_due();
            if self.store.round_is_due(now) {
                self.store.forget_limits(now);
                idle.extend(self.store.registry.all());
            }
        }
        let clean_due = self.kept.clean_due.load(Ordering::Relaxed);
        self.kept.table.due.store(if idle.is_empty() { clean_due } else { 0 }, Ordering::Relaxed);
    }

    /// Whether a move was begun.
    fn begin_move_if_due(&self) -> bool {
        let mode = self.move_due();
        let begins = mode == Move::Age || self.kept.table.wants_tidying(&|w| self.fate(w));
        if begins {
            self.kept.table.begin_move(mode, &|w| self.fate(w));
        }
        begins
    }

    /// A step of cleaning for a table that nobody hits: goes on with a move, or begins one. False when there is nothing more to do.
    fn clean_a_little(&self) -> bool {
        self.kept.table.move_some(&|w| self.fate(w))
            || self.kept.is_clean_due(self.now, 0, self.store.clean_period)
                && self.begin_move_if_due()
    }

    /// What the next move is for: age is looked at once in `key_older_than`.
    fn move_due(&self) -> Move {
        let (Some(age), Some(age_due)) = (self.store.key_older_than, &self.kept.age_due) else {
            return Move::Tidy;
        };
        let now = self.now.min(self.store.clock.now());
        let is_due = |due| (now.as_micros() >= due).then_some(now.plus(age).as_micros());
        match age_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due) {
            Ok(_) => Move::Age,
            Err(_) => Move::Tidy,
        }
    }

    fn clean(&self) -> usize {
        let fate = |w| self.fate(w);
        let gone = self.kept.table.move_all(self.move_due(), &fate);
        // The first move made room for all that was claimed; now that is known exactly.
        if self.kept.table.wants_tidying(&fate) {
            return gone + self.kept.table.move_all(Move::Tidy, &fate);
        }
        gone
    }

    fn reset(&self, fingerprint: u64) -> bool {
        let mut forget = |word: W| match self.state(word) {
            Some(state) => (Next::Put(W::CLEARED), !self.machine.is_fresh(Some(&state), self.now)),
            None => (Next::Keep, false),
        };
        self.kept.table.update(&pin(), fingerprint, &|w| self.fate(w), &mut forget).unwrap_or(false)
    }
}

/// One hit, or any other act, on one table with one machine. Not inlined: each pair gets its own registers. What is rare is a function of its own
/// that gets all it needs in registers, for what it needs on the stack every hit would have to put there.
#[inline(never)]
fn act_on<W: Word, M: Pack<W>, C: Clock>(
    store: &Inner<C>,
    kept: &Kept<W>,
    machine: &M,
    fingerprint: u64,
    now: Timestamp,
    act: impl Act,
) -> Decision {
    let guard = pin();
    let decision = match (On { store, kept, machine, now }).try_once(&guard, fingerprint, act) {
        Some(decision) => decision,
        None => act_surely(store, kept, machine, &guard, fingerprint, now, act.any()),
    };
    drop(guard);
    if now.as_micros() >= kept.table.due.load(Ordering::Relaxed) {
        maintain(store, kept, machine, now);
    }
    decision
}

#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)] // in registers: see `act_on`
fn act_surely<W: Word, M: Pack<W>, C: Clock>(
    store: &Inner<C>,
    kept: &Kept<W>,
    machine: &M,
    guard: &Guard,
    fingerprint: u64,
    now: Timestamp,
    act: AnyAct,
) -> Decision {
    On { store, kept, machine, now }.act_surely(guard, fingerprint, act)
}

#[cold]
#[inline(never)]
fn maintain<W: Word, M: Pack<W>, C: Clock>(
    store: &Inner<C>,
    kept: &Kept<W>,
    machine: &M,
    now: Timestamp,
) {
    On { store, kept, machine, now }.maintain();
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

    #[inline]
    fn fingerprint(&self, key: KeyRef<'_>) -> u64 {
        key.hash(&self.hasher).max(FIRST_FINGERPRINT)
    }

    #[inline]
    fn act(
        &self,
        prepared: &Prepared,
        fingerprint: u64,
        now: Timestamp,
        act: impl Act,
    ) -> Decision {
        with_packed!(&prepared.known.kept, &prepared.machine, (kept, machine) => {
            act_on(self, kept, machine, fingerprint, now, act)
        })
    }

    fn clean_a_little(&self, known: &Known, now: Timestamp) -> bool {
        let machine = *crate::registry::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            On { store: self, kept, machine, now }.clean_a_little()
        })
    }

    /// Once in a clean period somebody looks after the tables that nobody hits.
    fn round_is_due(&self, now: Timestamp) -> bool {
        let next = now.plus(self.clean_period).as_micros();
        let is_due = |due| (now.as_micros() >= due).then_some(next);
        self.round_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }

    fn forget_limits(&self, now: Timestamp) {
        self.registry.forget(|known| known.is_empty() && self.shares_nothing(known, now));
    }

    /// Whether the state that keys without a slot share is as good as none.
    fn shares_nothing(&self, known: &Known, now: Timestamp) -> bool {
        let machine = *crate::registry::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            let on = On { store: self, kept, machine, now };
            on.fate(Word::load(&kept.table.overflow, Ordering::SeqCst)) != Fate::Stays
        })
    }

    fn clean(&self, known: &Known, now: Timestamp) -> usize {
        let machine = *crate::registry::lock(&known.latest);
        with_packed!(&known.kept, &machine, (kept, machine) => {
            On { store: self, kept, machine, now }.clean()
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
        let width = pack::width(limit)?;
        let inner = &self.inner;
        let known = inner.registry.entry(namespace, limit, |_| {
            let kept = match width {
                ByWidth::Narrow(()) => ByWidth::Narrow(inner.keep(limit)),
                ByWidth::Wide(()) => ByWidth::Wide(inner.keep(limit)),
            };
            Ok::<_, Error>(Known { kept, latest: std::sync::Mutex::new(machine) })
        })?;
        *crate::registry::lock(&known.latest) = machine;
        Ok(Prepared { known, machine })
    }

    fn apply(&self, prepared: &Prepared, key: KeyRef<'_>, now: Timestamp, op: Op) -> Decision {
        self.inner.act(prepared, self.inner.fingerprint(key), now, AnyAct::Op(op))
    }

    #[inline]
    fn hit(
        &self,
        prepared: &Prepared,
        _key: KeyRef<'_>,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        self.inner.act(prepared, fingerprint, now, Hit(cost))
    }

    #[inline]
    fn hint(&self, prepared: &Prepared, key: KeyRef<'_>) -> u64 {
        let fingerprint = self.inner.fingerprint(key);
        match &prepared.known.kept {
            ByWidth::Narrow(kept) => kept.table.prefetch(fingerprint),
            ByWidth::Wide(kept) => kept.table.prefetch(fingerprint),
        }
        fingerprint
    }

    fn hit_together(
        &self,
        parts: &[Part<'_, Prepared>],
        now: Timestamp,
        out: &mut dyn FnMut(Decision),
    ) -> bool {
        let act = |part: &Part<'_, Prepared>, act| {
            self.inner.act(part.prepared, self.inner.fingerprint(part.key), now, act)
        };
        let undo = |part: &Part<'_, Prepared>, decision: &Decision| {
            // Not as of `now`, which may be long past: what has run off since must not be given back.
            let later = now.max(self.inner.clock.now());
            let refund = AnyAct::Op(Op::Refund(decision.receipt()));
            let fingerprint = self.inner.fingerprint(part.key);
            let _ = self.inner.act(part.prepared, fingerprint, later, refund);
        };
        together(parts, act, undo, out)
    }

    fn reset(&self, prepared: &Prepared, key: KeyRef<'_>, now: Timestamp) -> bool {
        let fingerprint = self.inner.fingerprint(key);
        let known = &*prepared.known;
        with_packed!(&known.kept, &prepared.machine, (kept, machine) => {
            On { store: &*self.inner, kept, machine, now }.reset(fingerprint)
        })
    }

    fn clear(&self, prepared: &Prepared) {
        prepared.known.clear();
    }

    fn same_counter(&self, a: &Prepared, b: &Prepared) -> bool {
        Arc::ptr_eq(&a.known, &b.known)
    }

    fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// Settings of an [`Atomic`] store.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Atomic;
///
/// let store = Atomic::builder().max_keys(100_000).clean_period(Duration::from_secs(30)).build();
/// ```
#[derive(Debug)]
#[must_use = "call build"]
pub struct AtomicBuilder<C = SystemClock> {
    clock: C,
    max_keys: usize,
    clean_period: Duration,
    key_older_than: Option<Duration>,
}

impl<C> AtomicBuilder<C> {
    /// Tells the time by another clock.
    ///
    /// ```
    /// # use tollgate::{Atomic, ManualClock};
    /// let store = Atomic::builder().clock(ManualClock::default()).build();
    /// ```
    pub fn clock<D>(self, clock: D) -> AtomicBuilder<D> {
        AtomicBuilder {
            clock,
            max_keys: self.max_keys,
            clean_period: self.clean_period,
            key_older_than: self.key_older_than,
        }
    }

    /// The most keys with a slot, over all limits; ten million unless said. At the bound known keys keep their exact states and unknown ones
    /// share one state per limit.
    ///
    /// ```
    /// # use tollgate::{Atomic, Source};
    /// let limiter = Atomic::builder().max_keys(1).build().limiter("1/hour")?;
    /// assert_eq!(limiter.hit("known").source(), Source::Store);
    /// assert_eq!(limiter.hit("newcomer").source(), Source::Overflow);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// How often states that have run out are cleaned; a minute unless said.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let store = tollgate::Atomic::builder().clean_period(Duration::from_secs(5)).build();
    /// ```
    pub fn clean_period(mut self, period: Duration) -> Self {
        self.clean_period = period;
        self
    }

    /// Permits to forget states that nobody used for that long (and up to twice as long) although they are not fresh: a drained bucket comes
    /// back full. Off unless said.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let store = tollgate::Atomic::builder().key_older_than(Duration::from_secs(86_400)).build();
    /// ```
    pub fn key_older_than(mut self, age: Duration) -> Self {
        self.key_older_than = Some(age);
        self
    }
}

impl<C: Clock> AtomicBuilder<C> {
    /// The store.
    ///
    /// ```
    /// let store = tollgate::Atomic::builder().build();
    /// ```
    #[must_use]
    pub fn build(self) -> Atomic<C> {
        let (made_at, clean_period) = (self.clock.now(), micros_up(self.clean_period));
        let inner = Inner {
            hasher: RandomState::default(),
            registry: Registry::new(),
            shared: Arc::new(Shared::new(self.max_keys)),
            overflowed: AtomicUsize::new(0),
            made_at,
            clean_period,
            round_due: AtomicU64::new(made_at.plus(clean_period).as_micros()),
            idle: std::sync::Mutex::default(),
            key_older_than: self.key_older_than.map(micros_up),
            clock: self.clock,
        };
        Atomic { inner: Arc::new(inner) }
    }
}
