//! The move to a next generation. All callers do it in chunks, and no caller waits for another.

use std::ptr;

use super::super::sync::{Ordering, PinnedEra, pin};
use super::super::word::Word;
use super::garbage::Retired;
use super::generation::{
    CHUNK_LINES, CLOSED, FIRST_FINGERPRINT, Generation, MIN_LINES, Move, SEALED, Slot, capacity,
    copy, seal,
};
use super::{Fate, Table};

impl<W: Word> Table<W> {
    /// Makes room for new keys: continues the move in progress, or begins one.
    pub(super) fn make_room(
        &self,
        guard: &PinnedEra,
        full: &Generation<W>,
        fate: &dyn Fn(W) -> Fate,
    ) {
        let current = self.current(guard);
        if let Some(next) = current.next() {
            if !self.move_chunk(current, next, fate) {
                self.move_leftovers(current, next, fate);
            }
        } else if ptr::eq(current, full) {
            self.begin(current, Move::Tidy, fate);
        }
    }

    /// Closes the current generation and links the next one. Returns true if this call has linked
    /// it. Several threads may do this at the same time, and none waits for another.
    fn begin(&self, generation: &Generation<W>, mode: Move, fate: &dyn Fn(W) -> Fate) -> bool {
        let closed = generation.claimed.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        if !generation.next.load(Ordering::Acquire).is_null() {
            return false;
        }
        // The next generation must have room for every slot with a fingerprint. Both counts are at
        // least that number. The count of claims may be slightly too high, because a thread may
        // release a claim after the generation was closed. A key is counted before its slot is
        // claimed, so the count of keys includes every claim that `fetch_or` saw.
        let closed = closed.min(self.keys.fetch_add(0, Ordering::AcqRel));
        // There must be room for all claimed slots, and for twice the states that stay.
        let wanted = closed.max(2 * self.living(generation, closed, fate));
        let mut lines = MIN_LINES;
        while capacity(lines) < wanted {
            lines *= 2;
        }
        let mine = Box::into_raw(Box::new(Generation::new(lines, closed, mode)));
        let linked = generation.next.compare_exchange(
            ptr::null_mut(),
            mine,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if linked.is_err() {
            // SAFETY: no other thread has seen `mine`.
            drop(unsafe { Box::from_raw(mine) });
        }
        linked.is_ok()
    }

    /// Estimates from a sample how many of `claimed` slots contain a state that stays.
    fn living(
        &self,
        generation: &Generation<W>,
        claimed: usize,
        fate: &dyn Fn(W) -> Fate,
    ) -> usize {
        const SAMPLE: usize = 64;
        let stride = (generation.lines / SAMPLE).max(1);
        let (mut taken, mut stays) = (0, 0);
        for index in (0..generation.lines).step_by(stride) {
            for slot in generation.line(index) {
                if slot.fingerprint.load(Ordering::Acquire) >= FIRST_FINGERPRINT {
                    taken += 1;
                    let word = W::load(&slot.word, Ordering::Acquire);
                    stays += usize::from(word.payload().is_some() && fate(word) == Fate::Stays);
                }
            }
        }
        claimed * stays / taken.max(1)
    }

    /// Returns whether a move is worthwhile: enough slots have no state that stays, or the table is
    /// nearly empty, or the store is at its bound and a slot can be freed.
    pub(in super::super) fn wants_tidying(&self, fate: &dyn Fn(W) -> Fate) -> bool {
        let guard = pin();
        let generation = self.current(&guard);
        if !generation.next.load(Ordering::Acquire).is_null() {
            return false;
        }
        let claimed = generation.claimed.load(Ordering::Relaxed) & !CLOSED;
        let dead = claimed - self.living(generation, claimed, fate).min(claimed);
        let sparse = generation.lines > MIN_LINES && claimed * 8 < capacity(generation.lines);
        let full = self.shared.keys.load(Ordering::Relaxed) >= self.shared.max_keys;
        dead > claimed / 4 || sparse || dead > 0 && full
    }

    /// Begins a move unless one is in progress. Callers then do it in chunks.
    pub(in super::super) fn begin_move(&self, mode: Move, fate: &dyn Fn(W) -> Fate) {
        let guard = pin();
        self.begin(self.current(&guard), mode, fate);
    }

    /// Continues the move in progress. Returns whether there is one.
    pub(in super::super) fn move_some(&self, fate: &dyn Fn(W) -> Fate) -> bool {
        /// The number of chunks per call, which take some ten microseconds.
        const CHUNKS: usize = 8;
        let guard = pin();
        let generation = self.current(&guard);
        let Some(next) = generation.next() else { return false };
        if !(0..CHUNKS).all(|_| self.move_chunk(generation, next, fate)) {
            self.move_leftovers(generation, next, fate);
        }
        true
    }

    /// Moves all states to a new generation. Returns the number of states dropped.
    pub(in super::super) fn move_all(&self, mode: Move, fate: &dyn Fn(W) -> Fate) -> usize {
        let guard = pin();
        let mut gone = 0;
        loop {
            // A move that is already in progress may have kept states that are to be dropped now.
            gone += self.finish(self.current(&guard), fate);
            let generation = self.current(&guard);
            // If another thread has begun a move in the meantime, that move may also have kept such
            // states, so another one follows.
            let begun = self.begin(generation, mode, fate);
            gone += self.finish(generation, fate);
            if begun {
                return gone;
            }
        }
    }

    /// Forgets all states, including the state that keys without a slot share.
    pub(in super::super) fn clear(&self) {
        // The shared state is cleared first. A key that starts from it before that gets a slot that
        // the move below wipes.
        let mut word = W::load(&self.overflow, Ordering::SeqCst);
        while let Err(found) = W::replace_in_order(&self.overflow, word, W::CLEARED) {
            word = found;
        }
        self.move_all(Move::Wipe, &|_| Fate::Stays);
    }

    pub(super) fn finish(&self, generation: &Generation<W>, fate: &dyn Fn(W) -> Fate) -> usize {
        let Some(next) = generation.next() else { return 0 };
        let before = self.dropped.load(Ordering::Relaxed);
        while self.move_chunk(generation, next, fate) {}
        self.move_leftovers(generation, next, fate);
        self.dropped.load(Ordering::Relaxed) - before
    }

    /// Moves the next chunk. Returns false if all chunks have already been taken.
    pub(super) fn move_chunk(
        &self,
        from: &Generation<W>,
        to: &Generation<W>,
        fate: &dyn Fn(W) -> Fate,
    ) -> bool {
        if from.cursor.load(Ordering::Relaxed) >= from.moved.len() {
            return false;
        }
        let chunk = from.cursor.fetch_add(1, Ordering::Relaxed);
        if chunk < from.moved.len() {
            self.move_chunk_number(from, to, chunk, fate);
        }
        chunk < from.moved.len()
    }

    /// Moves the chunks that other threads have taken but not finished, and ends the move. So a
    /// caller that needs the end of a move does not wait for a thread that was interrupted.
    fn move_leftovers(&self, from: &Generation<W>, to: &Generation<W>, fate: &dyn Fn(W) -> Fate) {
        for chunk in 0..from.moved.len() {
            if !from.moved[chunk].load(Ordering::Acquire) {
                self.move_chunk_number(from, to, chunk, fate);
            }
        }
        // The thread that marked the last chunk may have been interrupted before it could do this.
        self.promote(from, to);
    }

    pub(super) fn move_chunk_number(
        &self,
        from: &Generation<W>,
        to: &Generation<W>,
        chunk: usize,
        fate: &dyn Fn(W) -> Fate,
    ) {
        let first = chunk * CHUNK_LINES;
        for index in first..from.lines.min(first + CHUNK_LINES) {
            for slot in from.line(index) {
                self.move_slot(slot, to, fate);
            }
        }
        // A chunk is counted once even if several threads move it. The thread that counts the last
        // chunk makes the next generation the current one.
        if !from.moved[chunk].swap(true, Ordering::AcqRel)
            && from.moved_count.fetch_add(1, Ordering::AcqRel) + 1 == from.moved.len()
        {
            self.promote(from, to);
        }
    }

    pub(super) fn promote(&self, from: &Generation<W>, to: &Generation<W>) {
        let (slots, mask) = (to.slots, Slot::<W>::offset_mask(to.lines));
        let (from, to) = (ptr::from_ref(from).cast_mut(), ptr::from_ref(to).cast_mut());
        if self.current.compare_exchange(from, to, Ordering::SeqCst, Ordering::Acquire).is_err() {
            return;
        }
        self.near_slots.store(slots, Ordering::Relaxed);
        self.near_mask.store(mask, Ordering::Relaxed);
        // SAFETY: `from` came from a box, and the compare-exchange above, which only one thread
        // wins, has just replaced it as the current generation.
        self.shared.retire(Box::new(unsafe { Retired::new(from) }));
        self.due.store(0, Ordering::Relaxed);
    }

    /// Ensures that this key cannot be changed in `from` any more: its state is in `to`, or it has
    /// no state.
    pub(super) fn settle(
        &self,
        from: &Generation<W>,
        to: &Generation<W>,
        fingerprint: u64,
        fate: &dyn Fn(W) -> Fate,
    ) {
        for slot in from.probe(fingerprint) {
            let found = seal(slot);
            if found == fingerprint {
                self.move_word(slot, fingerprint, to, fate);
            }
            if found == fingerprint || found == SEALED {
                return;
            }
        }
    }

    fn move_slot(&self, slot: &Slot<W>, to: &Generation<W>, fate: &dyn Fn(W) -> Fate) {
        let found = seal(slot);
        if found != SEALED {
            self.move_word(slot, found, to, fate);
        }
    }

    /// Freezes a word, and copies its state if the state stays.
    fn move_word(
        &self,
        slot: &Slot<W>,
        fingerprint: u64,
        to: &Generation<W>,
        fate: &dyn Fn(W) -> Fate,
    ) {
        let mut word = W::load(&slot.word, Ordering::Acquire);
        while !word.is_frozen() {
            let frozen = self.frozen(word, to.mode, fate);
            match W::replace(&slot.word, word, frozen) {
                Ok(()) => {
                    if frozen == W::DEAD {
                        to.claimed.fetch_sub(1, Ordering::AcqRel);
                        self.release_key();
                        self.dropped
                            .fetch_add(usize::from(word.payload().is_some()), Ordering::Relaxed);
                    }
                    word = frozen;
                }
                Err(found) => word = found,
            }
        }
        if word != W::DEAD {
            let used = word.is_used() && to.mode != Move::Age;
            copy(to, fingerprint, word.thaw().with_used(used));
        }
    }

    /// Returns the frozen form of a word: with its state, or dead if the state is dropped.
    fn frozen(&self, word: W, mode: Move, fate: &dyn Fn(W) -> Fate) -> W {
        if word.payload().is_none() || mode == Move::Wipe {
            return W::DEAD;
        }
        match fate(word) {
            Fate::FreshSince(time) => {
                // The floor must rise before other threads see that the word is dead.
                self.floor.fetch_max(time, Ordering::AcqRel);
                W::DEAD
            }
            Fate::Stays if mode == Move::Age && !word.is_used() => W::DEAD,
            Fate::Stays => word.freeze(),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::time::Duration;

    use super::super::super::pack::ByWidth;
    use super::*;
    use crate::{Atomic, Limiter, ManualClock, Timestamp};

    const KEYS: u64 = 2_000;

    fn store(max_keys: usize) -> (Atomic<ManualClock>, ManualClock) {
        let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
        (Atomic::builder().clock(clock.clone()).max_keys(max_keys).build(), clock)
    }

    fn with_table<R>(
        limiter: &Limiter<Atomic<ManualClock>>,
        f: impl FnOnce(&Table<u64>) -> R,
    ) -> R {
        let prepared = limiter.prepared().next().expect("a limiter has a limit");
        let ByWidth::Narrow(kept) = &prepared.known.kept else {
            panic!("the states of {:?} fit a narrow word", limiter.limits())
        };
        f(&kept.table)
    }

    /// At each round every state has expired, but the keys reuse their slots: no slot is claimed
    /// again, and no state is dropped.
    #[test]
    fn keys_that_are_hit_again_soon_keep_their_slots() {
        let limits = [
            ("1000/second", 2),
            ("100000000/minute", 1),
            ("7/second burst=3", 500),
            ("3/minute", 20_000),
        ];
        for (limit, pause) in limits {
            let (store, clock) = store(10_000_000);
            let limiter = store.limiter(limit).unwrap();
            let round = || (0..KEYS).for_each(|key| assert!(limiter.hit(key).allowed()));
            round();
            let first = with_table(&limiter, |table| table.current.load(Ordering::Relaxed));
            for _ in 0..40 {
                clock.advance(Duration::from_millis(pause));
                round();
            }
            with_table(&limiter, |table| {
                assert_eq!(
                    table.current.load(Ordering::Relaxed),
                    first,
                    "{limit}: there is no move"
                );
                assert_eq!(table.dropped.load(Ordering::Relaxed), 0, "{limit}");
            });
            assert_eq!(store.len() as u64, KEYS);
        }
    }

    /// Keys that come only once are removed before the store is full.
    #[test]
    fn expired_states_are_removed_before_they_fill_the_store() {
        let (store, clock) = store(4_000);
        let limiter = store.limiter("1000/second").unwrap();
        for key in 0..50_000_u64 {
            clock.advance(Duration::from_micros(100));
            assert!(limiter.hit(key).allowed());
            assert!(store.len() < 4_000, "{key}: {}", store.len());
        }
        assert_eq!(store.overflowed(), 0);
    }
}
