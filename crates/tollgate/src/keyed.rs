//! The parts that stores with keys in this process have in common.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::algorithm::{Act, Aging, AnyMachine, AnyState, Op};
use crate::outcome::{Outcome, Source};
use crate::time::Timestamp;

/// Locks a mutex, even if a thread panicked while it held the lock: the data is consistent after
/// every statement.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A separate cache line, so that the lock of one shard does not slow down the next one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLine<T>(pub T);

/// Returns the hash of a key of one limit, from the hash of the key. One key under many limits has
/// as many different hashes, so it is found without comparing it with the others.
#[inline(always)]
#[must_use]
pub fn entry_hash(key_hash: u64, limit: u64) -> u64 {
    // An odd factor, 2^64 by the golden ratio: consecutive numbers differ in their lowest bits and
    // are spread over the highest. hashbrown uses both.
    key_hash ^ limit.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The number of keys, with an upper bound.
#[derive(Debug)]
pub struct Count {
    /// The keys that have an entry.
    pub keys: AtomicUsize,
    max_keys: usize,
    /// The number of hits that were decided on an overflow state.
    pub overflowed: AtomicUsize,
}

impl Count {
    /// A count of no keys.
    #[must_use]
    pub fn new(max_keys: usize) -> Count {
        Count { keys: AtomicUsize::new(0), max_keys, overflowed: AtomicUsize::new(0) }
    }

    /// Returns whether the store is at its bound.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.keys.load(Ordering::Relaxed) >= self.max_keys
    }

    /// Counts one more key, unless the store is at its bound. Returns whether it did.
    #[inline]
    pub fn take(&self) -> bool {
        let room = |keys| (keys < self.max_keys).then_some(keys + 1);
        self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }
}

/// The state that keys without an entry share while the store is at its bound.
#[derive(Debug, Default)]
pub struct Overflow {
    /// Whether `state` may be present. If not, no lock is needed, which is the usual case.
    used: AtomicBool,
    state: Mutex<Option<AnyState>>,
}

impl Overflow {
    /// Acts on the shared state.
    pub fn act(&self, machine: &AnyMachine, now: Timestamp, act: Act) -> Outcome {
        if machine.aging() == Aging::Never {
            // The units of a budget never come back, so keys cannot share one: it is used up.
            let mut full = None;
            let _ = machine.apply(&mut full, now, Op::Charge(machine.capacity()));
            return machine.act(&mut full, now, act).with_source(Source::Overflow);
        }
        if machine.is_ban() {
            // One key's denials must never ban another key.
            let unknown = machine.apply(&mut None, now, Op::Peek(0));
            return unknown.with_source(Source::Overflow);
        }
        let mut state = lock(&self.state);
        let decision = machine.act(&mut state, now, act);
        if state.is_some() {
            self.used.store(true, Ordering::Release);
        }
        decision.with_source(Source::Overflow)
    }

    /// Returns the state from which a key that now gets an entry starts. `None` is a fresh state.
    pub fn copy(&self, machine: &AnyMachine, now: Timestamp) -> Option<AnyState> {
        if !self.used.load(Ordering::Acquire) {
            return None;
        }
        let state = lock(&self.state);
        state.clone().filter(|state| machine.fresh_at(Some(state)).is_some_and(|at| at > now))
    }

    /// Forgets the state if it equals a fresh one. Returns whether there is no state now.
    pub fn tidy(&self, machine: &AnyMachine, now: Timestamp) -> bool {
        let mut state = lock(&self.state);
        if machine.fresh_at(state.as_ref()).is_none_or(|at| at <= now) {
            self.used.store(false, Ordering::Release);
            *state = None;
        }
        state.is_none()
    }

    /// Forgets the state.
    pub fn clear(&self) {
        *lock(&self.state) = None;
    }
}
