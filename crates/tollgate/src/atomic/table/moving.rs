//! Moving to a next generation: by all callers, in chunks, without waiting for anybody.

use std::ptr;

use super::super::sync::{Guard, Ordering, pin};
use super::super::word::Word;
use super::garbage::Retired;
use super::generation::{
    CHUNK_LINES, CLOSED, FIRST_FINGERPRINT, Generation, MIN_LINES, Move, SEALED, Slot, capacity,
    copy, seal,
};
use super::{Fate, Table};

impl<W: Word> Table<W> {
    /// Makes room for newcomers: by moving on with the move under way, or by beginning one.
    pub(super) fn make_room(&self, guard: &Guard, full: &Generation<W>, fate: &dyn Fn(W) -> Fate) {
        let current = self.current(guard);
        if let Some(next) = current.next() {
            if !self.move_chunk(current, next, fate) {
                self.move_leftovers(current, next, fate);
            }
        } else if ptr::eq(current, full) {
            self.begin(current, Move::Tidy, fate);
        }
    }

    /// Closes a current generation and links the next; true if that is ours. Anybody may do any of
    /// the steps: nobody waits for whoever began.
    fn begin(&self, generation: &Generation<W>, mode: Move, fate: &dyn Fn(W) -> Fate) -> bool {
        let closed = generation.claimed.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        if !generation.next.load(Ordering::Acquire).is_null() {
            return false;
        }
        // Both are never less than the slots with a fingerprint. The count of the generation may be
        // some too high: who gives a claim back after it was closed is not seen by the next. The
        // count of keys is taken before a claim, so what `fetch_or` saw is in it.
        let closed = closed.min(self.keys.fetch_add(0, Ordering::AcqRel));
        // Room for everything that is claimed, and for as much again of what lives.
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
            // SAFETY: nobody has seen `mine`.
            drop(unsafe { Box::from_raw(mine) });
        }
        linked.is_ok()
    }

    /// How many of `claimed` slots hold a state that stays, judged by some of them.
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

    /// The share of slots that hold nothing worth keeping is large enough, or the table empty
    /// enough, for a move to pay.
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

    /// Begins a move unless one is under way; callers then do it in chunks.
    pub(in super::super) fn begin_move(&self, mode: Move, fate: &dyn Fn(W) -> Fate) {
        let guard = pin();
        self.begin(self.current(&guard), mode, fate);
    }

    /// Goes on with the move under way, if there is one.
    pub(in super::super) fn move_some(&self, fate: &dyn Fn(W) -> Fate) -> bool {
        /// Some ten microseconds of work.
        const CHUNKS: usize = 8;
        let guard = pin();
        let generation = self.current(&guard);
        let Some(next) = generation.next() else { return false };
        if !(0..CHUNKS).all(|_| self.move_chunk(generation, next, fate)) {
            self.move_leftovers(generation, next, fate);
        }
        true
    }

    /// Moves to a new generation and waits for the end of it; how many states went.
    pub(in super::super) fn move_all(&self, mode: Move, fate: &dyn Fn(W) -> Fate) -> usize {
        let guard = pin();
        let mut gone = 0;
        loop {
            // A move under way may have passed over what is to go now.
            gone += self.finish(self.current(&guard), fate);
            let generation = self.current(&guard);
            // Somebody else may have begun one just now, which passes over what came before ours.
            let begun = self.begin(generation, mode, fate);
            gone += self.finish(generation, fate);
            if begun {
                return gone;
            }
        }
    }

    /// Forgets all states, the shared one too.
    pub(in super::super) fn clear(&self) {
        // The shared one first: who starts from it gets a slot that is wiped.
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

    /// Moves the next chunk; false when all have been given out.
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

    /// Moves the chunks that somebody took and has not finished: who needs the end of a move does
    /// not wait for a sleeper.
    fn move_leftovers(&self, from: &Generation<W>, to: &Generation<W>, fate: &dyn Fn(W) -> Fate) {
        for chunk in 0..from.moved.len() {
            if !from.moved[chunk].load(Ordering::Acquire) {
                self.move_chunk_number(from, to, chunk, fate);
            }
        }
        // Also if whoever marked the last chunk has fallen asleep before this.
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
        // Counted once, whoever does it. The last one makes the next generation the current one.
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
        // SAFETY: `from` came from a box, was replaced as the current one just now, and by us
        // alone.
        self.shared.retire(Box::new(unsafe { Retired::new(from) }));
        self.due.store(0, Ordering::Relaxed);
    }

    /// Leaves no slot for this key in `from`: its state is in `to`, or it has none.
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

    /// Freezes a word and copies it if it stays.
    fn move_word(
        &self,
        slot: &Slot<W>,
        fingerprint: u64,
        to: &Generation<W>,
        fate: &dyn Fn(W) -> Fate,
    ) {
        let mut word = W::load(&slot.word, Ordering::Acquire);
        while !word.is_frozen() {
            let frozen = self.fated(word, to.mode, fate);
            match W::replace(&slot.word, word, frozen) {
                Ok(()) => {
                    if frozen == W::DEAD {
                        to.claimed.fetch_sub(1, Ordering::AcqRel);
                        self.give_key();
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

    /// The frozen form of a word: with its state, or dead.
    fn fated(&self, word: W, mode: Move, fate: &dyn Fn(W) -> Fate) -> W {
        if word.payload().is_none() || mode == Move::Wipe {
            return W::DEAD;
        }
        match fate(word) {
            Fate::FreshSince(time) => {
                // Before the word is dead for others to see.
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

    /// Every state has run out when its key comes again, and none is claimed or dropped for that.
    #[test]
    fn keys_of_a_limit_per_second_keep_their_slots() {
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
                assert_eq!(table.current.load(Ordering::Relaxed), first, "{limit}: no move");
                assert_eq!(table.dropped.load(Ordering::Relaxed), 0, "{limit}");
            });
            assert_eq!(store.len() as u64, KEYS);
        }
    }

    /// Keys that come once leave before they fill the store.
    #[test]
    fn states_that_have_run_out_go_before_they_fill_the_store() {
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
