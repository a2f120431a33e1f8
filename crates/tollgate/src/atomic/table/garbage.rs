//! Old generations, which are freed piece by piece when no thread can reach them any more.

use std::collections::VecDeque;

use super::super::sync::{AtomicUsize, Ended, Ordering, end_era};
use super::super::word::Word;
use super::generation::Generation;

/// The number of slots that are freed in one step: 256 KiB of narrow slots, which take some tens of
/// microseconds.
const FREED_AT_ONCE: usize = 16 * 1024;

/// The counters that all tables of a store share.
pub(in super::super) struct Shared {
    pub(in super::super) keys: AtomicUsize,
    pub(in super::super) max_keys: usize,
    /// The old generations that are not yet freed, the oldest first.
    garbage: std::sync::Mutex<VecDeque<Box<dyn Garbage>>>,
    /// The number of old generations that are not yet freed.
    retired: AtomicUsize,
}

impl Shared {
    pub(in super::super) fn new(max_keys: usize) -> Self {
        Shared {
            keys: AtomicUsize::new(0),
            max_keys,
            garbage: std::sync::Mutex::default(),
            retired: AtomicUsize::new(0),
        }
    }

    /// Returns whether more than half of the permitted keys have a slot. A table that doubles might
    /// then reach the bound, so states that equal a fresh one are removed as early as possible.
    pub(in super::super) fn is_crowded(&self) -> bool {
        self.keys.load(Ordering::Relaxed) > self.max_keys / 2
    }

    /// Keeps an old generation until no thread can be reading it any more.
    pub(super) fn retire(&self, old: Box<dyn Garbage>) {
        crate::keyed::lock(&self.garbage).push_back(old);
        self.retired.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees a piece of an old generation if that is safe. Returns false if there is no old
    /// generation.
    pub(in super::super) fn free_some(&self) -> bool {
        if self.retired.load(Ordering::Relaxed) == 0 {
            return false;
        }
        if let Ok(mut garbage) = self.garbage.try_lock()
            && garbage.front_mut().is_some_and(|oldest| oldest.free_some())
        {
            garbage.pop_front();
            self.retired.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }
}

/// Memory that is freed in pieces, because freeing tens of megabytes in one step would delay a hit
/// by a millisecond.
pub(super) trait Garbage: Send {
    /// Frees a piece if that is safe. Returns true if the memory has been freed completely.
    fn free_some(&mut self) -> bool;
}

/// A generation that was replaced and waits to be freed.
pub(super) struct Retired<W: Word> {
    generation: *mut Generation<W>,
    era: Ended,
}

// SAFETY: it is the only owner of a generation, which consists of atomics.
unsafe impl<W: Word> Send for Retired<W> {}

impl<W: Word> Retired<W> {
    /// # Safety
    /// The generation must come from a box and must be unreachable for guards that are created from
    /// now on: a `SeqCst` write has replaced it as the current one. No other `Retired` may be
    /// created from it.
    pub(super) unsafe fn new(generation: *mut Generation<W>) -> Self {
        Retired { generation, era: end_era() }
    }
}

impl<W: Word> Garbage for Retired<W> {
    fn free_some(&mut self) -> bool {
        if !self.era.is_past() {
            return false;
        }
        // SAFETY: the generation has been unreachable since that era, and all guards of that time
        // have been dropped, so no other thread has a reference to it.
        let memory = unsafe { &mut (*self.generation).memory };
        memory.truncate(memory.len().saturating_sub(FREED_AT_ONCE));
        memory.shrink_to_fit();
        memory.is_empty()
    }
}

impl<W: Word> Drop for Retired<W> {
    fn drop(&mut self) {
        // SAFETY: `Shared` drops this value when all of its memory has been freed in pieces, or
        // when the store has no more tables. In both cases no thread can be reading it.
        drop(unsafe { Box::from_raw(self.generation) });
    }
}
