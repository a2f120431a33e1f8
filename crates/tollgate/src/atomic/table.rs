//! A lock-free, growable table from fingerprints to words. The only place with `unsafe`: this file
//! and those below it.
//!
//! Open addressing: a fingerprint goes to the first empty slot from its home line on. Within one
//! *generation* a slot's fingerprint is written once and stays, so
//!
//! - a fingerprint never has two slots: both claimants walk the same slots and meet at the first
//!   empty one, where one compare-exchange decides;
//! - a word belongs to one key for as long as the generation lives: a compare-exchange on it can
//!   never charge another key, however long its thread was paused.
//!
//! Growing, cleaning, shrinking, ageing and wiping are one mechanism, moving to a next generation,
//! done by the calling threads in small chunks:
//!
//! 1. The generation is closed: no more claims. Its count is now a bound on the slots to copy, and
//!    the next generation is made large enough.
//! 2. A call on a key *settles* the key first: it freezes the key's word, or seals the empty slot
//!    where the key would have gone, and copies a frozen state into the next generation. Only then
//!    does it work there.
//! 3. The fate of a state, copied or dropped, is written into its word by the very compare-exchange
//!    that freezes it, so all threads agree.
//! 4. A copy is written by a compare-exchange from void to the state. A slot is void only before
//!    its first state, so a late copier changes nothing.
//! 5. Each chunk is marked as done by the thread that moved it; when all are, the next generation
//!    becomes the current one. Only the current generation may get a successor. A copier that meets
//!    a sealed slot in the next generation therefore knows that everything was copied long ago.
//! 6. The old generation is freed in slices, when no thread can hold a reference to it any more
//!    (`era`).
//!
//! A state that is dropped because it is fresh raises the table's *floor* to the time when it
//! became fresh; a thread that read the clock before that and finds no state starts at the floor.

#![expect(unsafe_code, reason = "raw pointers to generations; each block has its proof")]

mod garbage;
mod generation;
mod moving;

use super::sync::{Arc, AtomicPtr, AtomicU64, AtomicUsize, Guard, Ordering, pin};
use super::word::Word;
pub(super) use garbage::Shared;
use generation::{EMPTY, Generation, MIN_LINES, SEALED, Slot};
pub(super) use generation::{FIRST_FINGERPRINT, Move};

/// The fate of a state that is met while moving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// It equals a fresh one since this time, in microseconds.
    FreshSince(u64),
}

/// The change that a caller wants to make to a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next<W> {
    Keep,
    Put(W),
}

/// The table is full: a key could not get a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

pub(super) struct Table<W: Word> {
    current: AtomicPtr<Generation<W>>,
    /// About where the current generation lies: for [`Table::prefetch`] only.
    near_slots: AtomicPtr<Slot<W>>,
    near_mask: AtomicUsize,
    /// When housekeeping is due, in microseconds: immediately while old generations wait to be
    /// freed.
    pub(super) due: AtomicU64,
    /// The floor, in microseconds.
    floor: AtomicU64,
    /// The state that keys without a slot share while the store is at its bound.
    pub(super) overflow: W::Cell,
    /// Keys with a slot here.
    keys: AtomicUsize,
    /// States that moves have dropped since the table was made.
    dropped: AtomicUsize,
    shared: Arc<Shared>,
}

impl<W: Word> std::fmt::Debug for Table<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("keys", &self.len()).finish_non_exhaustive()
    }
}

// SAFETY: all shared fields are atomic; raw pointers are to generations, which are made of atomics
// and freed by the rules above.
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

    /// The earliest time at which a key without a state may start.
    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Keys with a slot, also those whose state has run out.
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

    fn give_key(&self) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.shared.keys.fetch_sub(1, Ordering::Relaxed);
    }

    fn current<'g>(&self, _guard: &'g Guard) -> &'g Generation<W> {
        // SAFETY: the current generation is never null. It is retired only after it was replaced as
        // the current one, and freed only when every guard of that time is gone; ours existed
        // before we loaded the pointer.
        unsafe { &*self.current.load(Ordering::SeqCst) }
    }

    /// Begins to fetch the line where the key most likely lies. It needs no guard: the address may
    /// be stale, because it is not read here.
    #[inline(always)]
    pub(super) fn prefetch(&self, fingerprint: u64) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let offset =
                generation::home_offset(fingerprint, self.near_mask.load(Ordering::Relaxed));
            let address = self.near_slots.load(Ordering::Relaxed).wrapping_byte_add(offset);
            // SAFETY: a prefetch of any address, mapped or not, has no effect but on the cache.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let _ = fingerprint;
    }

    /// The word of a key, if it has one and no move is under way: the fast case. A word that is
    /// neither void nor frozen may be replaced by compare-exchange; for the others there is
    /// [`update`](Table::update).
    #[inline(always)]
    pub(super) fn find<'g>(&self, guard: &'g Guard, fingerprint: u64) -> Option<&'g W::Cell> {
        let generation = self.current(guard);
        if !generation.next.load(Ordering::Acquire).is_null() {
            return None;
        }
        let home = generation.line(generation.home(fingerprint));
        let here = |slot: &&Slot<W>| slot.fingerprint.load(Ordering::Acquire) == fingerprint;
        let slot = home.iter().find(here).or_else(|| generation.find_away_from_home(fingerprint));
        slot.map(|slot| &slot.word)
    }

    /// Replaces the word of a key by the result of `f`, also when the key has no slot yet or a move
    /// is under way. `f` gets the word, or void when there is none; it may be called several times,
    /// and its last result is written and returned. `fate` judges states that have to be moved on
    /// the way.
    pub(super) fn update<R>(
        &self,
        guard: &Guard,
        fingerprint: u64,
        fate: &dyn Fn(W) -> Fate,
        f: &mut dyn FnMut(W) -> (Next<W>, R),
    ) -> Result<R, Full> {
        loop {
            let mut generation = self.current(guard);
            // Settle along the chain: only one move runs at a time, but it may have ended and the
            // next begun since we looked.
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
        let give_back = || {
            generation.claimed.fetch_sub(1, Ordering::AcqRel);
            self.give_key();
        };
        for slot in generation.probe(fingerprint) {
            let mut found = slot.fingerprint.load(Ordering::Acquire);
            if found == EMPTY {
                if !claimed {
                    // There is nothing to write or to claim: the key is in no later generation,
                    // because this slot would have to be sealed for that.
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
                        self.give_key();
                        return Attempt::NoRoom;
                    }
                    claimed = true;
                }
                // In one order with the overflow state: a new key claims its slot and then looks
                // there, the others charge there and then look here.
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
                    give_back();
                }
                if found == SEALED {
                    return Attempt::Moved;
                }
                return self.update_word(slot, f).map_or(Attempt::Moved, Attempt::Done);
            }
        }
        if claimed {
            give_back();
        }
        if generation.next().is_some() { Attempt::Moved } else { Attempt::NoRoom }
    }

    /// Replaces the word of a slot by the result of `f`; does nothing when the word is frozen.
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

    /// The first word of a slot: the state that keys without a slot share is also the first state
    /// of a key that gets one.
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

    /// Whether the key has a slot. The check is in one order with the overflow state.
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
                // Sealed since we looked for a next generation: the thread that sealed it may have
                // claimed a slot there.
                Some(SEALED) => {}
                found => return found == Some(fingerprint),
            }
        }
    }
}

enum Attempt<R> {
    Done(R),
    /// The generation was left: look in the next one.
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
            // SAFETY: no other thread has the table; the current generation and those linked behind
            // it are ours and not retired.
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
