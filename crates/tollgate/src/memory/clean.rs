//! Cleaning: removes the states that equal a fresh one, one shard at a time.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::Inner;
use super::entry::{Entry, Kept, NoPart, Stored, TablesOf, Whole};
use super::shard::{Known, Shard};
use super::stored_key::StoredKey;
use crate::algorithm::moving_window::MovingWindowState;
use crate::algorithm::{AnyMachine, with_machine};
use crate::clock::Clock;
use crate::key::{Key, KeyRef, OwnedKey};
use crate::keyed::lock;
use crate::limit::Limit;
use crate::time::Timestamp;

/// A key that the store has forgotten, usually because its state had become equal to a fresh one.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use tollgate::{Limit, ManualClock, Memory, Timestamp};
///
/// let (clock, seen) = (ManualClock::new(Timestamp::from_micros(0)), Arc::new(Mutex::new(vec![])));
/// let log = Arc::clone(&seen);
/// let store = Memory::builder()
///     .clock(clock.clone())
///     .before_clean(move |batch| {
///         for expired in batch {
///             log.lock().unwrap().push((expired.key().to_string(), expired.value()));
///         }
///     })
///     .build();
/// let limiter = store.limiter("5/second fixed-window")?;
/// limiter.hit_n("alice", 3);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(store.clean(), 1);
/// assert_eq!(*seen.lock().unwrap(), [("alice".to_string(), 3)]);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expired {
    known: Arc<Known>,
    pub(super) limit: Arc<Limit>,
    pub(super) key: OwnedKey,
    pub(super) value: u64,
    pub(super) expired_at: Timestamp,
}

impl Expired {
    /// Returns the limit that counted the key.
    ///
    /// See the example of [`Expired`].
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the namespace of the limit.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.known.namespace
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        self.key.as_key_ref()
    }

    /// Returns the units in use when the state was last written. For GCRA it returns 0, because
    /// GCRA does not remember that time.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Returns the time at which the state became (or would have become) equal to a fresh one.
    #[must_use]
    pub fn expired_at(&self) -> Timestamp {
        self.expired_at
    }
}

impl Key for Expired {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(self.key())
    }
}

thread_local! {
    /// Whether this thread is running a `before_clean` function. The function may use limiters,
    /// which do not clean meanwhile: cleaning would call the function again, and so on until the
    /// stack overflows.
    static IN_BEFORE_CLEAN: Cell<bool> = const { Cell::new(false) };
}

/// Calls `before_clean`. If it panics, the panic is caught and logged.
fn report(before_clean: &BeforeClean, batch: &[Expired]) {
    IN_BEFORE_CLEAN.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| before_clean(batch)));
    IN_BEFORE_CLEAN.set(false);
    if result.is_err() {
        tracing::warn!(
            keys = batch.len(),
            "before_clean panicked: the keys of this batch are forgotten, but may not have been processed"
        );
    }
}

/// The function that was passed to `before_clean` of the builder.
pub(super) type BeforeClean = Box<dyn Fn(&[Expired]) + Send + Sync>;

impl<C: Clock> Inner<C> {
    /// Does one step of cleaning if it is due. It is called after a decision, without holding a
    /// lock.
    #[inline]
    pub(super) fn clean_if_due(&self, now: Timestamp) {
        if now.as_micros() >= self.clean_due.load(Ordering::Relaxed) {
            self.clean_step(now);
        }
    }

    #[cold]
    fn clean_step(&self, now: Timestamp) {
        if IN_BEFORE_CLEAN.get() {
            return;
        }
        // A caller may pass any time. States are never removed before they are fresh by the store's
        // own clock.
        let now = now.min(self.clock.now());
        let step = self.clean_cursor.fetch_add(1, Ordering::Relaxed);
        let (index, all) = (step % self.shards.len(), self.shards.len());
        self.clean_shard(index, now, false);
        self.holds.sweep(step, now);
        let numbers = self.registry.numbers();
        self.forget_limits(numbers * index / all..numbers * (index + 1) / all, now);
        if index == all - 1 {
            let next = now.plus(self.clean_period);
            self.clean_due.store(next.as_micros(), Ordering::Relaxed);
        }
    }

    /// Cleans all shards, and returns the number of keys removed. It does nothing if it is called
    /// from `before_clean`.
    pub(super) fn clean_all(&self, now: Timestamp) -> usize {
        if IN_BEFORE_CLEAN.get() {
            return 0;
        }
        let gone = (0..self.shards.len())
            .map(|index| {
                self.holds.sweep(index, now);
                self.clean_shard(index, now, true)
            })
            .sum();
        self.forget_limits(0..self.registry.numbers(), now);
        gone
    }

    /// Cleans all shards to make room for a new limit, unless that was done within the last 1/16 of
    /// a clean period. Returns whether it cleaned.
    pub(super) fn clean_to_make_room(&self) -> bool {
        let now = self.clock.now();
        let due = self.registry.is_cleaning_due(now, self.clean_period / 16);
        if due {
            self.clean_all(now);
        }
        due
    }

    /// Forgets those limits of these numbers that have neither a limiter nor a key.
    fn forget_limits(&self, numbers: Range<usize>, now: Timestamp) {
        for number in numbers {
            self.registry.forget(number, |known| {
                let machine = lock(&known.latest).1;
                known.overflow.tidy(&machine, now) && known.keys.load(Ordering::Relaxed) == 0
            });
        }
    }

    fn clean_shard(&self, index: usize, now: Timestamp, shrinks: bool) -> usize {
        let mut batch = Vec::new();
        let mut logs = Vec::new();
        let gone = {
            let mut shard = lock(&self.shards[index].0);
            let Shard { tables, floor, aged_at } = &mut *shard;
            let old_enough =
                self.key_older_than.is_some_and(|age| now.micros_since(*aged_at) >= age);
            if old_enough {
                *aged_at = now;
            }
            let mut sweep = Sweep {
                store: self,
                now,
                old_enough,
                shrinks,
                floor,
                batch: self.before_clean.is_some().then_some(&mut batch),
                last: None,
            };
            let words = sweep.tables(&mut tables.words, &mut logs);
            let addresses = sweep.tables(&mut tables.addresses, &mut logs);
            words + addresses + sweep.tables(&mut tables.bytes, &mut logs)
        };
        // Freeing long logs and running the user's function take time, so the lock is no longer
        // held here.
        drop(logs);
        if let Some(before_clean) = self.before_clean.as_ref().filter(|_| !batch.is_empty()) {
            report(before_clean, &batch);
        }
        gone
    }
}

/// One pass over one shard.
struct Sweep<'a, C> {
    store: &'a Inner<C>,
    now: Timestamp,
    /// Whether to remove keys that were not used since the last pass of this kind, even if they are
    /// not fresh.
    old_enough: bool,
    /// Whether to shrink tables. Hits do not shrink them, because an allocator may take
    /// milliseconds to return memory.
    shrinks: bool,
    floor: &'a mut Timestamp,
    batch: Option<&'a mut Vec<Expired>>,
    /// The limit of the previous entry. Neighbouring entries often have the same limit.
    last: Option<(Arc<Known>, Arc<Limit>, AnyMachine)>,
}

impl<C> Sweep<'_, C> {
    /// Cleans all tables for one layout of keys. Removed logs are moved to `logs`, so that they are
    /// freed after the lock is released.
    fn tables<K: StoredKey>(
        &mut self,
        tables: &mut TablesOf<K>,
        logs: &mut Vec<MovingWindowState>,
    ) -> usize {
        let numbers = self.table(&mut tables.one, drop)
            + self.table(&mut tables.two, drop)
            + self.table(&mut tables.three, drop);
        numbers
            + self.table(&mut tables.holders, drop)
            + self.table(&mut tables.logs, |log| logs.push(log))
    }

    fn table<K: StoredKey, T: Kept>(
        &mut self,
        table: &mut HashTable<Entry<K, T>>,
        mut gone: impl FnMut(T),
    ) -> usize {
        let before = table.len();
        for entry in table.extract_if(|entry| self.goes(entry)) {
            gone(entry.state);
        }
        let went = before - table.len();
        if self.shrinks && table.len() < table.capacity() / 4 {
            let hasher: &RandomState = &self.store.hasher;
            table.shrink_to(table.len() * 2, |entry| entry.hash(hasher));
        }
        self.store.count.keys.fetch_sub(went, Ordering::Relaxed);
        went
    }

    fn goes<K: StoredKey, T: Kept>(&mut self, entry: &mut Entry<K, T>) -> bool {
        let number = entry.key.limit();
        if self.last.as_ref().is_none_or(|(known, ..)| known.number != number) {
            // Every number in a table is known, because a limit with keys is never forgotten.
            let Some(known) = self.store.registry.by_number(number) else { return false };
            let (limit, machine) = lock(&known.latest).clone();
            self.last = Some((known, limit, machine));
        }
        let Some((known, limit, machine)) = &self.last else { return false };
        let Some(judgement) = Judgement::new(&entry.state, machine, self.now) else { return false };
        let Judgement { fresh_at, written, .. } = judgement;
        let fresh = fresh_at <= self.now;
        // Live holds, budgets and bans are never forgotten, however old they are.
        let kept = matches!(
            machine,
            AnyMachine::Concurrent(_) | AnyMachine::Budget(_) | AnyMachine::Ban(_)
        );
        let unused = self.old_enough && !kept && !entry.key.replace_used(false);
        if !fresh && !unused {
            return false;
        }
        if fresh {
            *self.floor = fresh_at.max(*self.floor);
        }
        known.keys.fetch_sub(1, Ordering::Relaxed);
        if let Some(batch) = &mut self.batch {
            batch.push(Expired {
                known: Arc::clone(known),
                limit: Arc::clone(limit),
                key: entry.key.key().to_owned_key(),
                value: written,
                expired_at: fresh_at,
            });
        }
        true
    }
}

/// An evaluation of a stored state by the machine of its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    pub(super) fresh_at: Timestamp,
    /// The units in use when the state was written.
    pub(super) written: u64,
    /// The units in use now.
    pub(super) used: u64,
}

impl Judgement {
    /// Evaluates a state. `None` if the machine stores its states in another layout, which cannot
    /// occur.
    pub(super) fn new<T: Kept>(kept: &T, machine: &AnyMachine, now: Timestamp) -> Option<Self> {
        if let AnyMachine::Gcra(machine) = machine
            && let Some(judgement) = Judgement::by::<NoPart, _>(kept, machine, now)
        {
            return Some(judgement);
        }
        with_machine!(machine, machine => Judgement::by::<Whole, _>(kept, machine, now))
    }

    fn by<L, M: Stored<L>>(kept: &dyn Any, machine: &M, now: Timestamp) -> Option<Self> {
        let kept = kept.downcast_ref::<M::Kept>()?;
        Some(M::peek(kept, |state| Judgement {
            fresh_at: machine.fresh_at(state),
            written: machine.written(state),
            used: machine.used(Some(state), now),
        }))
    }
}
