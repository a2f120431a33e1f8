//! A generation: the slots, and how they are claimed, sealed and filled.

use std::ptr;

use super::super::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use super::super::word::Word;

/// No fingerprint yet. Zero, because new memory comes zeroed from the operating system.
pub(super) const EMPTY: u64 = 0;
/// Never holds a fingerprint: a key that would go here goes to the next generation.
pub(super) const SEALED: u64 = 1;
/// The smallest fingerprint.
pub(in super::super) const FIRST_FINGERPRINT: u64 = 2;

pub(super) const LINE: usize = 4;
#[cfg(not(loom))]
pub(super) const MIN_LINES: usize = 16;
#[cfg(loom)]
pub(super) const MIN_LINES: usize = 1;
/// Lines that are moved at a time.
pub(super) const CHUNK_LINES: usize = if cfg!(loom) { 1 } else { 8 };
/// Marks a closed generation in its count.
pub(super) const CLOSED: usize = 1 << (usize::BITS - 1);

#[repr(C)]
pub(super) struct Slot<W: Word> {
    pub(super) fingerprint: AtomicU64,
    pub(super) word: W::Cell,
}

impl<W: Word> Slot<W> {
    /// The bytes of a line.
    const LINE_BYTES: usize = LINE * size_of::<Slot<W>>();
    /// The bits of a fingerprint above these pick its home.
    const HOME_SHIFT: u32 = if cfg!(loom) { 16 } else { 10 + Self::LINE_BYTES.ilog2() };

    /// The mask for [`home_offset`]: how far behind the first of `lines` the home of a fingerprint
    /// lies, in bytes. It is the same for all widths of words.
    pub(super) const fn offset_mask(lines: usize) -> usize {
        (lines - 1) * Self::LINE_BYTES
    }
}

/// Why a generation is replaced by a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Move {
    /// Room is needed, or too many slots are dead.
    Tidy,
    /// As `Tidy`, and states that were not used since the last move are dropped.
    Age,
    /// All states are dropped.
    Wipe,
}

pub(super) struct Generation<W: Word> {
    /// The first slot of the first line. Lines follow one another, each in one cache line when its
    /// slots are narrow.
    pub(super) slots: *mut Slot<W>,
    pub(super) lines: usize,
    /// The number of lines less one.
    pub(super) mask: usize,
    pub(super) next: AtomicPtr<Generation<W>>,
    /// How this generation treats the states that are moved into it.
    pub(super) mode: Move,
    /// Slots with a fingerprint, or an upper bound of it while states are moved here; and `CLOSED`.
    pub(super) claimed: AtomicUsize,
    /// The next chunk to move out, the number of chunks moved out, and the number of all chunks.
    pub(super) cursor: AtomicUsize,
    pub(super) moved: Box<[AtomicBool]>,
    pub(super) moved_count: AtomicUsize,
    /// The allocation that `slots` points into: a few slots more than needed, so that the first
    /// line can begin at a cache line.
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
        // SAFETY: `index` is below `lines` (callers mask it or walk the range), and `slots` points
        // to that many lines, which live as long as the generation and are shared only as atomics.
        unsafe { &*self.slots.add(index * LINE).cast() }
    }

    /// The slots where a fingerprint may be, in probing order, each once.
    pub(super) fn probe(&self, fingerprint: u64) -> impl Iterator<Item = &Slot<W>> {
        let home = self.home(fingerprint);
        let lines = (0..self.lines).map(move |step| self.line((home + step) & self.mask));
        lines.flatten()
    }

    /// The line where the search for a fingerprint begins.
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

    /// Reserves one of the slots, if any are left and the generation is open.
    pub(super) fn claim(&self) -> bool {
        let room = |claimed: usize| (claimed < capacity(self.lines)).then_some(claimed + 1);
        self.claimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_ok()
    }

    pub(super) fn next(&self) -> Option<&Generation<W>> {
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: a next generation is linked once, stays linked, and is freed only after this one,
        // which our caller can still reach.
        unsafe { next.as_ref() }
    }
}

/// Slots without a fingerprint. The operating system hands out large pieces of zeros without
/// touching them, so this does not take long.
#[cfg(not(loom))]
pub(super) fn empty_slots<W: Word>(len: usize) -> Vec<Slot<W>> {
    let Ok(layout) = std::alloc::Layout::array::<Slot<W>>(len) else {
        unreachable!("as many slots as there may be keys fit the address space")
    };
    // SAFETY: the layout is not of size zero: there is at least a line of slots.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    // SAFETY: allocated above for `len` slots. All bits zero are valid slots, empty and void: both
    // cells are represented as their integers.
    unsafe { Vec::from_raw_parts(memory.cast(), len, len) }
}

#[cfg(loom)]
pub(super) fn empty_slots<W: Word>(len: usize) -> Vec<Slot<W>> {
    let slot = || Slot { fingerprint: AtomicU64::new(EMPTY), word: W::VOID.cell() };
    (0..len).map(|_| slot()).collect()
}

/// Three quarters of the slots: beyond that probing gets long, and what a closed generation holds
/// always fits one of its own size.
pub(super) const fn capacity(lines: usize) -> usize {
    lines * LINE / 4 * 3
}

/// Where the home of a fingerprint begins, in bytes.
#[inline(always)]
pub(super) fn home_offset(fingerprint: u64, offset_mask: usize) -> usize {
    (fingerprint >> 10) as usize & offset_mask
}

/// Seals the slot if it is empty; returns its content after that.
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
            // If the word is not void any more, another thread has made the same copy.
            let _ = W::replace(&slot.word, W::VOID, word);
        }
        if found == fingerprint || found == SEALED {
            return;
        }
    }
}
