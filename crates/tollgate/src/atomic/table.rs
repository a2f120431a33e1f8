//! A lock-free, growable table from fingerprints to words. Only this file and the files below it
//! contain `unsafe`.
//!
//! The table uses open addressing: a fingerprint is written to the first empty slot at or after its
//! home line. A table is replaced as a whole by a larger or cleaner one, and each of these tables
//! is a *generation*. Within one generation the fingerprint of a slot is written once and never
//! changes. Therefore:
//!
//! - A fingerprint never has two slots: two threads that claim one visit the same slots, and at the
//!   first empty slot one compare-exchange decides.
//! - A word belongs to one key as long as the generation exists: a compare-exchange on it can never
//!   charge another key, even if its thread was paused for long.
//!
//! Growing, cleaning, shrinking, removing old keys and clearing use the same mechanism: a *move* to
//! a next generation, which the calling threads do in small chunks:
//!
//! 1. The generation is closed, so no more slots can be claimed. Its count is now an upper bound on
//!    the slots to copy, and the next generation is created large enough for them.
//! 2. A call on a key first *settles* the key: it freezes the key's word and copies the frozen
//!    state into the next generation, or, if the key has no slot, seals the empty slot that it
//!    would have got. Only then does the call continue in the next generation.
//! 3. The fate of a state (copied or dropped) is written into its word by the same compare-exchange
//!    that freezes it, so all threads agree on it.
//! 4. A copy is written by a compare-exchange from void to the state. A slot is void only before
//!    its first state, so a thread that copies late changes nothing.
//! 5. Each chunk is marked as done by the thread that moved it. When all chunks are done, the next
//!    generation becomes the current one. Only the current generation may get a successor. So a
//!    thread that finds a sealed slot while copying into the next generation knows that all states
//!    have already been copied.
//! 6. The old generation is freed in pieces, when no thread can hold a reference to it any more
//!    (`era`).
//!
//! Dropping a state that equals a fresh one raises the *floor* of the table to the time at which
//! the state became fresh. If a thread has read the clock before that time and finds no state, its
//! new state starts at the floor.

#![expect(
    unsafe_code,
    reason = "generations are raw pointers; a comment at each block proves it safe"
)]

mod garbage;
mod generation;
mod moving;

use super::sync::{Arc, AtomicPtr, AtomicU64, AtomicUsize, Ordering, PinnedEra, pin};
use super::word::Word;
pub(super) use garbage::Shared;
use generation::{EMPTY, Generation, MIN_LINES, SEALED, Slot};
pub(super) use generation::{FIRST_FINGERPRINT, Move};

/// Whether a move to the next generation keeps or drops a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// The state is dropped. It has equalled a fresh one since this time, in microseconds.
    FreshSince(u64),
}

/// The change that a caller wants to make to a word: none, or a new word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next<W> {
    Keep,
    Put(W),
}

/// The error for a key that could not get a slot, because the store is at its bound on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

pub(super) struct Table<W: Word> {
    current: AtomicPtr<Generation<W>>,
    /// The slots of the current generation, or of an earlier one. They are used only for
    /// [`Table::prefetch`].
    near_slots: AtomicPtr<Slot<W>>,
    near_mask: AtomicUsize,
    /// The time at which maintenance is due, in microseconds. It is zero while old generations wait
    /// to be freed.
    pub(super) due: AtomicU64,
    /// The floor, in microseconds.
    floor: AtomicU64,
    /// The state that keys without a slot share while the store is at its bound.
    pub(super) overflow: W::Cell,
    /// The number of keys with a slot in this table.
    keys: AtomicUsize,
    /// The number of states that moves have dropped since the table was created.
    dropped: AtomicUsize,
    shared: Arc<Shared>,
}

impl<W: Word> std::fmt::Debug for Table<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("keys", &self.len()).finish_non_exhaustive()
    }
}

// SAFETY: all shared fields are atomic. The raw pointers point to generations, which consist of
// atomics and are freed by the rules above.
unsafe impl<W: Word> Send for Table<W> {}
// SAFETY: as above.
unsafe impl<W: Word> Sync for Table<W> {}

impl<W: Word> Table<W> {
    pub(super) fn new(shared: Arc<Shared>, due: u64) -> Self {
        let first = Box::new(Generation::new(MIN_LINES, 0, Move::Tidy));
        Table {
            near_slots: AtomicPtr::new(first.slots),
            near_mask: AtomicUsize::new(Slot::<W>::offset_mask(first.lines)),
            current: AtomicPtr::new(Box::into_raw(first)),
            due: AtomicU64::new(due),
            floor: AtomicU64::new(0),
            overflow: W::VOID.cell(),
            keys: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            shared,
        }
    }

    /// Returns the earliest time at which a key without a state may start.
    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Returns the number of keys with a slot, including those whose state equals a fresh one.
    pub(super) fn len(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    fn take_key(&self) -> bool {
        let room = |keys| (keys < self.shared.max_keys).then_some(keys + 1);
        let taken =
            self.shared.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        if taken {
            self.keys.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn release_key(&self) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.shared.keys.fetch_sub(1, Ordering::Relaxed);
    }

    fn current<'g>(&self, _guard: &'g PinnedEra) -> &'g Generation<W> {
        // SAFETY: the current generation is never null. It is retired only after another generation
        // has become the current one, and freed only when every guard of that time has been
        // dropped. Our guard existed before we loaded the pointer.
        unsafe { &*self.current.load(Ordering::SeqCst) }
    }

    /// Prefetches the line where the key most likely lies. No guard is needed: the address may be
    /// stale, because it is not read here.
    #[inline(always)]
    pub(super) fn prefetch(&self, fingerprint: u64) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let offset =
                generation::home_offset(fingerprint, self.near_mask.load(Ordering::Relaxed));
            let address = self.near_slots.load(Ordering::Relaxed).wrapping_byte_add(offset);
            // SAFETY: a prefetch of any address, mapped or not, only affects the cache.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let _ = fingerprint;
    }

    /// Returns the word of a key, if the key has a slot and no move is in progress. This is the
    /// fast path. The caller may replace a word that is neither void nor frozen by
    /// compare-exchange. In all other cases it must call [`update`](Table::update).
    #[inline(always)]
    pub(super) fn find<'g>(&self, guard: &'g PinnedEra, fingerprint: u64) -> Option<&'g W::Cell> {
        let generation = self.current(guard);
        if !generation.next.load(Ordering::Acquire).is_null() {
            return None;
        }
        let home = generation.line(generation.home(fingerprint));
        let here = |slot: &&Slot<W>| slot.fingerprint.load(Ordering::Acquire) == fingerprint;
        let slot = home.iter().find(here).or_else(|| generation.find_away_from_home(fingerprint));
        slot.map(|slot| &slot.word)
    }

    /// Replaces the word of a key by the result of `f`, even if the key has no slot yet or a move
    /// is in progress. `f` gets the word, or void if there is none. It may be called several times,
    /// and its last result is written and returned. `fate` decides which states stay if states have
    /// to be moved.
    pub(super) fn update<R>(
        &self,
        guard: &PinnedEra,
        fingerprint: u64,
        fate: &dyn Fn(W) -> Fate,
        f: &mut dyn FnMut(W) -> (Next<W>, R),
    ) -> Result<R, Full> {
        loop {
            let mut generation = self.current(guard);
            // Settle the key in all generations from the current one on. Only one move runs at a
            // time, but since we loaded the current generation, that move may have ended and the
            // next one begun.
            while let Some(next) = generation.next() {
                self.move_chunk(generation, next, fate);
                self.settle(generation, next, fingerprint, fate);
                generation = next;
            }
            match self.try_update(generation, fingerprint, f) {
                Attempt::Done(result) => return Ok(result),
                Attempt::AtBound => return Err(Full),
                Attempt::Moved => {}
                Attempt::NoRoom => self.make_room(guard, generation, fate),
            }
        }
    }

    fn try_update<R>(
        &self,
        generation: &Generation<W>,
        fingerprint: u64,
        f: &mut dyn FnMut(W) -> (Next<W>, R),
    ) -> Attempt<R> {
        let mut claimed = false;
        let release = || {
            generation.claimed.fetch_sub(1, Ordering::AcqRel);
            self.release_key();
        };
        for slot in generation.probe(fingerprint) {
            let mut found = slot.fingerprint.load(Ordering::Acquire);
            if found == EMPTY {
                if !claimed {
                    // The key is in no later generation, because then this slot would be sealed. So
                    // if the store is at its bound or `f` changes nothing, the call ends here.
                    if self.shared.keys.load(Ordering::Relaxed) >= self.shared.max_keys {
                        return Attempt::AtBound;
                    }
                    let shared = W::load(&self.overflow, Ordering::SeqCst);
                    let start = if shared.payload().is_some() { shared } else { W::VOID };
                    if let (Next::Keep, result) = f(start) {
                        return Attempt::Done(result);
                    }
                    if !self.take_key() {
                        return Attempt::AtBound;
                    }
                    if !generation.claim() {
                        self.release_key();
                        return Attempt::NoRoom;
                    }
                    claimed = true;
                }
                // The claim and the overflow state have one total order. A caller with a new key
                // claims its slot and then reads the overflow state. Other callers charge the
                // overflow state and then look for the slot.
                let claim = slot.fingerprint.compare_exchange(
                    EMPTY,
                    fingerprint,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
                match claim {
                    Ok(_) => {
                        claimed = false;
                        found = fingerprint;
                    }
                    Err(theirs) => found = theirs,
                }
            }
            if found == fingerprint || found == SEALED {
                if claimed {
                    release();
                }
                if found == SEALED {
                    return Attempt::Moved;
                }
                return self.update_word(slot, f).map_or(Attempt::Moved, Attempt::Done);
            }
        }
        if claimed {
            release();
        }
        if generation.next().is_some() { Attempt::Moved } else { Attempt::NoRoom }
    }

    /// Replaces the word of a slot by the result of `f`. Returns `None` and changes nothing if the
    /// word is frozen.
    fn update_word<R>(&self, slot: &Slot<W>, f: &mut dyn FnMut(W) -> (Next<W>, R)) -> Option<R> {
        let mut word = W::load(&slot.word, Ordering::Acquire);
        loop {
            if word == W::VOID {
                word = self.first_word(slot);
            }
            if word.is_frozen() {
                return None;
            }
            let (next, result) = f(word);
            let Next::Put(new) = next else { return Some(result) };
            match W::replace(&slot.word, word, new) {
                Ok(()) => return Some(result),
                Err(found) => word = found,
            }
        }
    }

    /// Initialises a void slot and returns its word. If keys without a slot share a state, the slot
    /// starts with a copy of it, otherwise it stays void.
    #[cold]
    fn first_word(&self, slot: &Slot<W>) -> W {
        let start = W::load(&self.overflow, Ordering::SeqCst);
        if start.payload().is_none() {
            return W::VOID;
        }
        match W::replace(&slot.word, W::VOID, start) {
            Ok(()) => start,
            Err(found) => found,
        }
    }

    /// Returns whether the key has a slot. The loads are `SeqCst`, so that they have one total
    /// order with accesses to the overflow state.
    pub(super) fn has_slot(&self, fingerprint: u64, fate: &dyn Fn(W) -> Fate) -> bool {
        let guard = pin();
        let mut generation = self.current(&guard);
        loop {
            while let Some(next) = generation.next() {
                self.settle(generation, next, fingerprint, fate);
                generation = next;
            }
            let mut found =
                generation.probe(fingerprint).map(|slot| slot.fingerprint.load(Ordering::SeqCst));
            match found.find(|found| *found == fingerprint || *found < FIRST_FINGERPRINT) {
                // The slot was sealed after we looked for a next generation. The thread that sealed
                // it may have claimed a slot in the next generation, so look again.
                Some(SEALED) => {}
                found => return found == Some(fingerprint),
            }
        }
    }
}

enum Attempt<R> {
    Done(R),
    /// The key has moved to the next generation, so try again there.
    Moved,
    /// The generation has no room for new keys.
    NoRoom,
    /// The store has no room for new keys.
    AtBound,
}

impl<W: Word> Drop for Table<W> {
    fn drop(&mut self) {
        self.shared.keys.fetch_sub(self.keys.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut generation = self.current.load(Ordering::Relaxed);
        while !generation.is_null() {
            // SAFETY: no other thread has a reference to the table. The current generation and the
            // generations linked after it belong to the table and are not retired.
            let owned = unsafe { Box::from_raw(generation) };
            generation = owned.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
use generation::capacity;

#[cfg(all(test, loom))]
#[path = "loom.rs"]
mod loom_models;
