//! A lock-free, growable table from fingerprints to words. The only file with `unsafe`.
//!
//! Open addressing: a fingerprint goes to the first empty slot from its home line on. Within one *generation* a slot's fingerprint is written
//! once and stays, so
//!
//! - a fingerprint never has two slots: both claimants walk the same slots and meet at the first empty one, where one compare-exchange decides;
//! - a word belongs to one key for good: a compare-exchange on it can never charge somebody else, however long its caller slept.
//!
//! Growing, cleaning, shrinking, ageing and wiping are one mechanism, moving to a next generation, done by the callers in small chunks:
//!
//! 1. The generation is closed: no more claims. Its count is now a bound on what must be copied, and the next generation is made large enough.
//! 2. Whoever comes with a key *settles* it first: it freezes the key's word, or seals the empty slot where the key would have gone, and copies
//!    a frozen state into the next generation. Only then does it work there.
//! 3. What becomes of a state, copied or dropped, is written into its word by the very compare-exchange that freezes it, so all agree.
//! 4. A copy is put by compare-exchange void to state. A slot is void only before its first state, so a late copier changes nothing.
//! 5. Each chunk is marked when it is done, by whoever did it; when all are, the next generation becomes the current one. Only the current
//!    generation may get a successor. A copier that meets a sealed slot in the next generation therefore knows that all was copied long ago.
//! 6. The old generation is freed when nobody can hold a reference to it any more (crossbeam-epoch), in slices.
//!
//! A state that is dropped because it is fresh raises the table's *floor* to the time it became so; a caller that read the clock before that and
//! finds no state starts at the floor.

#![allow(unsafe_code)]

use std::ptr;

use super::sync::{Arc, AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Guard, Ordering, pin};
use super::word::Word;

/// No fingerprint yet. Zero, as memory comes from the operating system.
const EMPTY: u64 = 0;
/// Never will be one: whoever wants this slot goes to the next generation.
const SEALED: u64 = 1;
/// The smallest fingerprint.
pub(super) const FIRST_FINGERPRINT: u64 = 2;

const LINE: usize = 4;
#[cfg(not(loom))]
const MIN_LINES: usize = 16;
#[cfg(loom)]
const MIN_LINES: usize = 1;
/// Slots that are freed at a time: 256 KiB of narrow ones, which take some tens of microseconds.
const FREED_AT_ONCE: usize = 16 * 1024;
/// Lines that are moved at a time.
const CHUNK_LINES: usize = if cfg!(loom) { 1 } else { 8 };
/// Marks a closed generation in its count.
const CLOSED: usize = 1 << (usize::BITS - 1);

#[repr(C)]
struct Slot<W: Word> {
    fingerprint: AtomicU64,
    word: W::Cell,
}

/// What is to become of a state that is met while moving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// It equals a fresh one since this time, in microseconds.
    FreshSince(u64),
}

/// What a caller wants done with a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next<W> {
    Keep,
    Put(W),
}

/// Why a key without a slot could not get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Why a generation is left for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Room is needed, or the dead are too many.
    Tidy,
    /// As `Tidy`, and states that were not used since the last time go.
    Age,
    /// All states go.
    Wipe,
}

/// What all tables of a store count together.
pub(super) struct Shared {
    pub(super) keys: AtomicUsize,
    pub(super) max_keys: usize,
    /// Memory of old generations that can be freed.
    garbage: std::sync::Mutex<Vec<Box<dyn Garbage>>>,
    /// Old generations whose memory is not freed yet, whether it can be or not.
    retired: AtomicUsize,
}

impl Shared {
    pub(super) fn new(max_keys: usize) -> Self {
        Shared {
            keys: AtomicUsize::new(0),
            max_keys,
            garbage: std::sync::Mutex::new(Vec::new()),
            retired: AtomicUsize::new(0),
        }
    }

    /// Frees a piece of an old generation, if there is one; false when nothing is left to be freed.
    pub(super) fn free_some(&self) -> bool {
        if self.retired.load(Ordering::Relaxed) == 0 {
            return false;
        }
        if let Ok(mut garbage) = self.garbage.try_lock() {
            if garbage.last_mut().is_some_and(|last| last.free_some()) {
                garbage.pop();
                self.retired.fetch_sub(1, Ordering::Relaxed);
            }
        }
        true
    }
}

struct Generation<W: Word> {
    /// The first slot of the first line. Lines follow one another, each in one cache line when its slots are narrow.
    slots: *mut Slot<W>,
    lines: usize,
    next: AtomicPtr<Generation<W>>,
    /// How this generation treats what is moved into it.
    mode: Move,
    /// Slots with a fingerprint, or an upper bound of it while states are moved here; and `CLOSED`.
    claimed: AtomicUsize,
    /// The next chunk to move out, the chunks moved out, and how many those are.
    cursor: AtomicUsize,
    moved: Box<[AtomicBool]>,
    moved_count: AtomicUsize,
    /// What `slots` points into: a few more than needed, to begin at a cache line.
    memory: Vec<Slot<W>>,
}

impl<W: Word> Generation<W> {
    fn new(lines: usize, claimed: usize, mode: Move) -> Self {
        let chunks = lines.div_ceil(CHUNK_LINES);
        let mut memory = empty_slots::<W>((lines + 1) * LINE);
        let skip = memory.as_ptr().align_offset(64) % LINE;
        Generation {
            // SAFETY: `skip` is less than a line, and there is one line more than we use.
            slots: unsafe { memory.as_mut_ptr().add(skip) },
            lines,
            next: AtomicPtr::new(ptr::null_mut()),
            mode,
            claimed: AtomicUsize::new(claimed),
            cursor: AtomicUsize::new(0),
            moved: (0..chunks).map(|_| AtomicBool::new(false)).collect(),
            moved_count: AtomicUsize::new(0),
            memory,
        }
    }

    #[inline(always)]
    fn line(&self, index: usize) -> &[Slot<W>; LINE] {
        debug_assert!(index < self.lines);
        // SAFETY: `index` is below `lines` (callers mask it or walk the range), and `slots` is followed by so many lines, which live as long as
        // the generation and are shared only as atomics.
        unsafe { &*self.slots.add(index * LINE).cast() }
    }

    /// The slots of a fingerprint in the order in which it may lie, each once.
    fn probe(&self, fingerprint: u64) -> impl Iterator<Item = &Slot<W>> {
        let home = self.home(fingerprint);
        let lines = (0..self.lines).map(move |step| self.line((home + step) & (self.lines - 1)));
        lines.flatten()
    }

    /// The line where a fingerprint is looked for first.
    #[inline(always)]
    fn home(&self, fingerprint: u64) -> usize {
        home(fingerprint, self.lines)
    }

    #[inline(never)]
    fn find_away_from_home(&self, fingerprint: u64) -> Option<&W::Cell> {
        for slot in self.probe(fingerprint) {
            let found = slot.fingerprint.load(Ordering::Acquire);
            if found == fingerprint {
                return Some(&slot.word);
            }
            if found < FIRST_FINGERPRINT {
                return None;
            }
        }
        None
    }

    /// Takes one of the slots, if there are any left and the generation is open.
    fn claim(&self) -> bool {
        let room = |claimed: usize| (claimed < capacity(self.lines)).then_some(claimed + 1);
        self.claimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_ok()
    }

    fn next(&self) -> Option<&Generation<W>> {
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: a next generation is linked once, stays linked, and is freed only after this one, which our caller can still reach.
        unsafe { next.as_ref() }
    }
}

/// Slots without a fingerprint. The operating system hands out large pieces of zeros without touching them, so this does not take long.
#[cfg(not(loom))]
fn empty_slots<W: Word>(len: usize) -> Vec<Slot<W>> {
    let Ok(layout) = std::alloc::Layout::array::<Slot<W>>(len) else {
        unreachable!("as many slots as there may be keys fit the address space")
    };
    // SAFETY: the layout is not of size zero: there is at least a line of slots.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    // SAFETY: allocated above for `len` slots. All bits zero are valid slots, empty and void: both cells are represented as their integers.
    unsafe { Vec::from_raw_parts(memory.cast(), len, len) }
}

#[cfg(loom)]
fn empty_slots<W: Word>(len: usize) -> Vec<Slot<W>> {
    let slot = || Slot { fingerprint: AtomicU64::new(EMPTY), word: W::VOID.cell() };
    (0..len).map(|_| slot()).collect()
}

pub(super) struct Table<W: Word> {
    current: AtomicPtr<Generation<W>>,
    /// Where the current generation lies, about: for [`Table::prefetch`] only.
    near_slots: AtomicPtr<Slot<W>>,
    near_lines: AtomicUsize,
    /// When housekeeping is due, in microseconds: now, while old generations wait to be freed.
    pub(super) due: AtomicU64,
    /// Microseconds.
    floor: AtomicU64,
    /// The state that keys without a slot share while the store is at its bound.
    pub(super) overflow: W::Cell,
    /// Keys with a slot here.
    keys: AtomicUsize,
    /// States that were dropped on a move, ever.
    dropped: AtomicUsize,
    shared: Arc<Shared>,
}

impl<W: Word> std::fmt::Debug for Table<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("keys", &self.len()).finish_non_exhaustive()
    }
}

// SAFETY: all that is shared is atomic; raw pointers are to generations, which are made of atomics and freed by the rules above.
unsafe impl<W: Word> Send for Table<W> {}
// SAFETY: as above.
unsafe impl<W: Word> Sync for Table<W> {}

impl<W: Word> Table<W> {
    pub(super) fn new(shared: Arc<Shared>, due: u64) -> Self {
        let first = Box::new(Generation::new(MIN_LINES, 0, Move::Tidy));
        Table {
            near_slots: AtomicPtr::new(first.slots),
            near_lines: AtomicUsize::new(first.lines),
            current: AtomicPtr::new(Box::into_raw(first)),
            due: AtomicU64::new(due),
            floor: AtomicU64::new(0),
            overflow: W::VOID.cell(),
            keys: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            shared,
        }
    }

    /// The time before which no key may start that has no state.
    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Keys with a slot, those with a state that has run out among them.
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
        // SAFETY: the current generation is never null. It is retired only after it was replaced as the current one, and freed only when every
        // guard of that time is gone; ours was there before we loaded the pointer.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Begins to fetch the line where the key most likely lies. Needs no guard: an address may be stale, it is not read here.
    #[inline(always)]
    pub(super) fn prefetch(&self, fingerprint: u64) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let lines = self.near_lines.load(Ordering::Relaxed);
            let line = home(fingerprint, lines);
            let address = self.near_slots.load(Ordering::Relaxed).wrapping_add(line * LINE);
            // SAFETY: a prefetch of any address, mapped or not, has no effect but on the cache.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let _ = fingerprint;
    }

    /// The word of a key, if it has one and no move is under way: the case that must be fast. A word that is neither void nor frozen may be
    /// replaced by compare-exchange; for the others there is [`update`](Table::update).
    #[inline(always)]
    pub(super) fn find<'g>(&self, guard: &'g Guard, fingerprint: u64) -> Option<&'g W::Cell> {
        let generation = self.current(guard);
        if !generation.next.load(Ordering::Acquire).is_null() {
            return None;
        }
        let home = generation.home(fingerprint);
        for slot in generation.line(home) {
            if slot.fingerprint.load(Ordering::Acquire) == fingerprint {
                return Some(&slot.word);
            }
        }
        generation.find_away_from_home(fingerprint)
    }

    /// Replaces the word of a key by what `f` makes of it, also when it has no slot yet or a move is under way. `f` gets the word, or void when there
    /// is none; it may be asked several times, and what it said last was done and is returned. `fate` judges states that have to be moved on the
    /// way.
    pub(super) fn update<R>(
        &self,
        guard: &Guard,
        fingerprint: u64,
        fate: &dyn Fn(W) -> Fate,
        f: &mut dyn FnMut(W) -> (Next<W>, R),
    ) -> Result<R, Full> {
        loop {
            let mut generation = self.current(guard);
            // Settle along the chain: only one move runs at a time, but it may have ended and the next begun since we looked.
            while let Some(next) = generation.next() {
                self.move_chunk(guard, generation, next, fate);
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
                    // Nothing to write, nothing to claim: the key is nowhere, for to be in a next generation this slot would have to be sealed.
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
                // In one order with the overflow state: a newcomer claims and then looks there, others charge there and then look here.
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

    /// Replaces the word of a slot by what `f` makes of it; nothing when the word is frozen.
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

    /// What a slot starts from: whatever keys without a slot have in common counts for a key that gets one.
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

    /// Makes room for newcomers: by moving on with the move under way, or by beginning one.
    fn make_room(&self, guard: &Guard, full: &Generation<W>, fate: &dyn Fn(W) -> Fate) {
        let current = self.current(guard);
        if let Some(next) = current.next() {
            if !self.move_chunk(guard, current, next, fate) {
                self.move_leftovers(guard, current, next, fate);
            }
        } else if ptr::eq(current, full) {
            self.begin(current, Move::Tidy, fate);
        }
    }

    /// Closes a current generation and links the next. Anybody may do any of the steps: nobody waits for whoever began.
    fn begin(&self, generation: &Generation<W>, mode: Move, fate: &dyn Fn(W) -> Fate) {
        let closed = generation.claimed.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        if !generation.next.load(Ordering::Acquire).is_null() {
            return;
        }
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

    /// The share of slots that hold nothing worth keeping is large enough, or the table empty enough, for a move to pay.
    pub(super) fn wants_tidying(&self, fate: &dyn Fn(W) -> Fate) -> bool {
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
    pub(super) fn begin_move(&self, mode: Move, fate: &dyn Fn(W) -> Fate) {
        let guard = pin();
        self.begin(self.current(&guard), mode, fate);
    }

    /// Goes on with the move under way, if there is one.
    pub(super) fn move_some(&self, fate: &dyn Fn(W) -> Fate) -> bool {
        /// Some ten microseconds of work.
        const CHUNKS: usize = 8;
        let guard = pin();
        let generation = self.current(&guard);
        let Some(next) = generation.next() else { return false };
        if !(0..CHUNKS).all(|_| self.move_chunk(&guard, generation, next, fate)) {
            self.move_leftovers(&guard, generation, next, fate);
        }
        true
    }

    /// Moves to a new generation and waits for the end of it; how many states went.
    pub(super) fn move_all(&self, mode: Move, fate: &dyn Fn(W) -> Fate) -> usize {
        let guard = pin();
        // A move under way may have passed over what is to go now.
        self.finish(&guard, self.current(&guard), fate);
        let generation = self.current(&guard);
        self.begin(generation, mode, fate);
        self.finish(&guard, generation, fate)
    }

    /// Forgets all states, the shared one too.
    pub(super) fn clear(&self) {
        self.move_all(Move::Wipe, &|_| Fate::Stays);
        let mut word = W::load(&self.overflow, Ordering::SeqCst);
        while let Err(found) = W::replace_in_order(&self.overflow, word, W::CLEARED) {
            word = found;
        }
    }

    fn finish(&self, guard: &Guard, generation: &Generation<W>, fate: &dyn Fn(W) -> Fate) -> usize {
        let Some(next) = generation.next() else { return 0 };
        let before = self.dropped.load(Ordering::Relaxed);
        while self.move_chunk(guard, generation, next, fate) {}
        self.move_leftovers(guard, generation, next, fate);
        self.dropped.load(Ordering::Relaxed) - before
    }

    /// Moves the next chunk; false when all have been given out.
    fn move_chunk(
        &self,
        guard: &Guard,
        from: &Generation<W>,
        to: &Generation<W>,
        fate: &dyn Fn(W) -> Fate,
    ) -> bool {
        if from.cursor.load(Ordering::Relaxed) >= from.moved.len() {
            return false;
        }
        let chunk = from.cursor.fetch_add(1, Ordering::Relaxed);
        if chunk < from.moved.len() {
            self.move_chunk_number(guard, from, to, chunk, fate);
        }
        chunk < from.moved.len()
    }

    /// Moves the chunks that somebody took and has not finished: who needs the end of a move does not wait for a sleeper.
    fn move_leftovers(
        &self,
        guard: &Guard,
        from: &Generation<W>,
        to: &Generation<W>,
        fate: &dyn Fn(W) -> Fate,
    ) {
        for chunk in 0..from.moved.len() {
            if !from.moved[chunk].load(Ordering::Acquire) {
                self.move_chunk_number(guard, from, to, chunk, fate);
            }
        }
        // Also if whoever marked the last chunk has fallen asleep before this.
        self.promote(guard, from, to);
    }

    fn move_chunk_number(
        &self,
        guard: &Guard,
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
            self.promote(guard, from, to);
        }
    }

    fn promote(&self, guard: &Guard, from: &Generation<W>, to: &Generation<W>) {
        let (slots, lines) = (to.slots, to.lines);
        let (from, to) = (ptr::from_ref(from).cast_mut(), ptr::from_ref(to).cast_mut());
        if self.current.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        self.near_slots.store(slots, Ordering::Relaxed);
        self.near_lines.store(lines, Ordering::Relaxed);
        self.due.store(0, Ordering::Relaxed);
        self.shared.retired.fetch_add(1, Ordering::Relaxed);
        let old = Retired(from);
        let shared = Arc::clone(&self.shared);
        // SAFETY: `from` is not reachable any more for guards that are taken from now on, and we alone replaced it, so it is retired once.
        unsafe {
            guard.retire(move || old.scatter(&shared));
        }
    }

    /// Leaves no slot for this key in `from`: its state is in `to`, or it has none.
    fn settle(
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

    /// Whether the key has a slot. In one order with the overflow state.
    pub(super) fn has_slot(&self, fingerprint: u64, fate: &dyn Fn(W) -> Fate) -> bool {
        let guard = pin();
        let mut generation = self.current(&guard);
        while let Some(next) = generation.next() {
            self.settle(generation, next, fingerprint, fate);
            generation = next;
        }
        generation
            .probe(fingerprint)
            .map(|slot| slot.fingerprint.load(Ordering::SeqCst))
            .find(|found| *found == fingerprint || *found < FIRST_FINGERPRINT)
            == Some(fingerprint)
    }
}

enum Attempt<R> {
    Done(R),
    /// The slot belongs to the past: look for the next generation.
    Moved,
    /// The generation has no room for newcomers.
    NoRoom,
    /// The store has no room for newcomers.
    AtBound,
}

/// Three quarters of the slots: beyond that probing gets long, and what a closed generation holds always fits one of its own size.
const fn capacity(lines: usize) -> usize {
    lines * LINE / 4 * 3
}

/// The line where a fingerprint is looked for first, of `lines`, a power of two.
#[inline(always)]
fn home(fingerprint: u64, lines: usize) -> usize {
    (fingerprint >> 16) as usize & lines.wrapping_sub(1)
}

/// Seals the slot if it is empty; what it holds now.
fn seal<W: Word>(slot: &Slot<W>) -> u64 {
    let found = slot.fingerprint.load(Ordering::Acquire);
    if found != EMPTY {
        return found;
    }
    match slot.fingerprint.compare_exchange(EMPTY, SEALED, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => SEALED,
        Err(found) => found,
    }
}

/// Brings a state into a generation unless it has been there already.
fn copy<W: Word>(to: &Generation<W>, fingerprint: u64, word: W) {
    for slot in to.probe(fingerprint) {
        let mut found = slot.fingerprint.load(Ordering::Acquire);
        if found == EMPTY {
            let claim = slot.fingerprint.compare_exchange(
                EMPTY,
                fingerprint,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            found = claim.map_or_else(|found| found, |_| fingerprint);
        }
        if found == fingerprint {
            // If it is not void any more, somebody else was here with the same copy.
            let _ = W::replace(&slot.word, W::VOID, word);
        }
        if found == fingerprint || found == SEALED {
            return;
        }
    }
}

/// A generation on its way out.
struct Retired<W: Word>(*mut Generation<W>);

// SAFETY: it is the only owner of a generation made of atomics.
unsafe impl<W: Word> Send for Retired<W> {}

impl<W: Word> Retired<W> {
    /// Hands the memory to the callers of the store, who free it piece by piece.
    fn scatter(self, shared: &Shared) {
        // SAFETY: the pointer came from a box, and by the promise to `retire` nobody else has it any more.
        let generation = unsafe { Box::from_raw(self.0) };
        crate::registry::lock(&shared.garbage).push(Box::new(generation.memory));
    }
}

/// Memory that can be freed in pieces: giving back tens of megabytes at once would hold up a hit for a millisecond.
trait Garbage: Send {
    /// Frees a piece; true when nothing is left.
    fn free_some(&mut self) -> bool;
}

impl<W: Word> Garbage for Vec<Slot<W>> {
    fn free_some(&mut self) -> bool {
        self.truncate(self.len().saturating_sub(FREED_AT_ONCE));
        self.shrink_to_fit();
        self.is_empty()
    }
}

impl<W: Word> Drop for Table<W> {
    fn drop(&mut self) {
        self.shared.keys.fetch_sub(self.keys.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut generation = self.current.load(Ordering::Relaxed);
        while !generation.is_null() {
            // SAFETY: nobody else has the table; the current generation and those linked behind it are ours and not retired.
            let owned = unsafe { Box::from_raw(generation) };
            generation = owned.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "loom.rs"]
mod loom_models;
