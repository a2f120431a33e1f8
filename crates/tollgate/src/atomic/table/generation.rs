//! A generation of a table: its slots, and how they are claimed, sealed and filled.

use std::ptr;

use super::super::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use super::super::word::Word;

/// The fingerprint of an empty slot. It is zero, because the operating system fills new memory with
/// zeros.
pub(super) const EMPTY: u64 = 0;
/// The fingerprint of a sealed slot. The slot will never be claimed, and a key that would have got
/// it gets a slot in the next generation.
pub(super) const SEALED: u64 = 1;
/// The smallest fingerprint of a key.
pub(in super::super) const FIRST_FINGERPRINT: u64 = 2;

pub(super) const LINE: usize = 4;
#[cfg(not(loom))]
pub(super) const MIN_LINES: usize = 16;
#[cfg(loom)]
pub(super) const MIN_LINES: usize = 1;
/// The number of lines that are moved in one step.
pub(super) const CHUNK_LINES: usize = if cfg!(loom) { 1 } else { 8 };
/// The bit in the count of claimed slots that marks a closed generation.
pub(super) const CLOSED: usize = 1 << (usize::BITS - 1);

#[repr(C)]
pub(super) struct Slot<W: Word> {
    pub(super) fingerprint: AtomicU64,
    pub(super) word: W::Cell,
}

impl<W: Word> Slot<W> {
    /// The number of bytes of a line.
    const LINE_BYTES: usize = LINE * size_of::<Slot<W>>();
    /// The number of low bits of a fingerprint that are not used to select its home line.
    const HOME_SHIFT: u32 = if cfg!(loom) { 16 } else { 10 + Self::LINE_BYTES.ilog2() };

    /// Returns the mask with which [`home_offset`] computes the home of a fingerprint in a table of
    /// this many lines.
    pub(super) const fn offset_mask(lines: usize) -> usize {
        (lines - 1) * Self::LINE_BYTES
    }
}

/// The reason why a generation is replaced by a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Move {
    /// More slots are needed, or too many slots are dead.
    Tidy,
    /// The same as `Tidy`, but states that were not used since their age was last checked are
    /// dropped too.
    Age,
    /// All states are dropped.
    Wipe,
}

pub(super) struct Generation<W: Word> {
    /// The first slot of the first line. The lines are contiguous, and a line of narrow slots is
    /// one cache line.
    pub(super) slots: *mut Slot<W>,
    pub(super) lines: usize,
    /// The number of lines minus one.
    pub(super) mask: usize,
    pub(super) next: AtomicPtr<Generation<W>>,
    /// The reason for the move into this generation, which decides what states are dropped.
    pub(super) mode: Move,
    /// The number of slots with a fingerprint, or an upper bound of it while states are moved into
    /// this generation. The highest bit is `CLOSED`.
    pub(super) claimed: AtomicUsize,
    /// The next chunk to move to the next generation. The two fields below say which chunks have
    /// been moved, and how many.
    pub(super) cursor: AtomicUsize,
    pub(super) moved: Box<[AtomicBool]>,
    pub(super) moved_count: AtomicUsize,
    /// The allocation into which `slots` points. It has one line more than needed, so that the
    /// first line can begin at a cache line.
    pub(super) memory: Vec<Slot<W>>,
}

impl<W: Word> Generation<W> {
    pub(super) fn new(lines: usize, claimed: usize, mode: Move) -> Self {
        let chunks = lines.div_ceil(CHUNK_LINES);
        let mut memory = empty_slots::<W>((lines + 1) * LINE);
        let skip = memory.as_ptr().align_offset(64) % LINE;
        Generation {
            // SAFETY: `skip` is less than a line, and the allocation has one line more than is
            // used.
            slots: unsafe { memory.as_mut_ptr().add(skip) },
            lines,
            mask: lines - 1,
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
    pub(super) fn line(&self, index: usize) -> &[Slot<W>; LINE] {
        debug_assert!(index < self.lines);
        // SAFETY: `index` is below `lines` (callers mask it or iterate over the range). `slots`
        // points to this many lines, which live as long as the generation and consist of atomics.
        unsafe { &*self.slots.add(index * LINE).cast() }
    }

    /// Returns the slots where a fingerprint may be, in probing order. Each slot occurs once.
    pub(super) fn probe(&self, fingerprint: u64) -> impl Iterator<Item = &Slot<W>> {
        let home = self.home(fingerprint);
        let lines = (0..self.lines).map(move |step| self.line((home + step) & self.mask));
        lines.flatten()
    }

    /// Returns the line where the search for a fingerprint begins.
    #[inline(always)]
    pub(super) fn home(&self, fingerprint: u64) -> usize {
        (fingerprint >> Slot::<W>::HOME_SHIFT) as usize & self.mask
    }

    #[cold]
    #[inline(never)]
    pub(super) fn find_away_from_home(&self, fingerprint: u64) -> Option<&Slot<W>> {
        for slot in self.probe(fingerprint) {
            let found = slot.fingerprint.load(Ordering::Acquire);
            if found == fingerprint {
                return Some(slot);
            }
            if found < FIRST_FINGERPRINT {
                return None;
            }
        }
        None
    }

    /// Reserves a slot if any are left and the generation is not closed. Returns whether it did.
    pub(super) fn claim(&self) -> bool {
        let room = |claimed: usize| (claimed < capacity(self.lines)).then_some(claimed + 1);
        self.claimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_ok()
    }

    pub(super) fn next(&self) -> Option<&Generation<W>> {
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: a next generation is linked once, stays linked, and is freed only after this
        // generation, to which our caller has a reference.
        unsafe { next.as_ref() }
    }
}

/// Allocates empty slots. This is fast, because the operating system provides zeroed pages only
/// when they are first accessed.
#[cfg(not(loom))]
pub(super) fn empty_slots<W: Word>(len: usize) -> Vec<Slot<W>> {
    let Ok(layout) = std::alloc::Layout::array::<Slot<W>>(len) else {
        unreachable!("{len} slots fit the address space")
    };
    // SAFETY: the size of the layout is not zero, because there is at least one line of slots.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    // SAFETY: the memory was allocated above for `len` slots. Zeroed memory is a valid slot, which
    // is empty and void, because both fields have the representation of integers.
    unsafe { Vec::from_raw_parts(memory.cast(), len, len) }
}

#[cfg(loom)]
pub(super) fn empty_slots<W: Word>(len: usize) -> Vec<Slot<W>> {
    let slot = || Slot { fingerprint: AtomicU64::new(EMPTY), word: W::VOID.cell() };
    (0..len).map(|_| slot()).collect()
}

/// Returns how many slots of a generation may be claimed: three quarters. With more, probing would
/// take long. All states of a closed generation fit a generation of the same size.
pub(super) const fn capacity(lines: usize) -> usize {
    lines * LINE / 4 * 3
}

/// Returns the distance of the home line of a fingerprint from the first line, in bytes.
#[inline(always)]
pub(super) fn home_offset(fingerprint: u64, offset_mask: usize) -> usize {
    (fingerprint >> 10) as usize & offset_mask
}

/// Seals the slot if it is empty. Returns the fingerprint that the slot has afterwards.
pub(super) fn seal<W: Word>(slot: &Slot<W>) -> u64 {
    let found = slot.fingerprint.load(Ordering::Acquire);
    if found != EMPTY {
        return found;
    }
    match slot.fingerprint.compare_exchange(EMPTY, SEALED, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => SEALED,
        Err(found) => found,
    }
}

/// Copies a state into a generation unless it was copied already.
pub(super) fn copy<W: Word>(to: &Generation<W>, fingerprint: u64, word: W) {
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
            // If the word is no longer void, another thread has made the same copy.
            let _ = W::replace(&slot.word, W::VOID, word);
        }
        if found == fingerprint || found == SEALED {
            return;
        }
    }
}
