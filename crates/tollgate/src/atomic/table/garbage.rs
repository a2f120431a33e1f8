//! Old generations: freed when nobody can see them any more, piece by piece.

use std::collections::VecDeque;

use super::super::sync::{AtomicUsize, Ended, Ordering, end_era};
use super::super::word::Word;
use super::generation::Generation;

/// Slots that are freed at a time: 256 KiB of narrow ones, which take some tens of microseconds.
const FREED_AT_ONCE: usize = 16 * 1024;

/// The counters that all tables of a store share.
pub(in super::super) struct Shared {
    pub(in super::super) keys: AtomicUsize,
    pub(in super::super) max_keys: usize,
    /// Old generations, oldest first.
    garbage: std::sync::Mutex<VecDeque<Box<dyn Garbage>>>,
    /// How many there are.
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

    /// Whether so many keys have a slot that a table which doubles might reach the bound. States
    /// that have run out then go at the first opportunity.
    pub(in super::super) fn is_crowded(&self) -> bool {
        self.keys.load(Ordering::Relaxed) > self.max_keys / 2
    }

    /// Keeps an old generation until nobody can be reading it any more.
    pub(super) fn retire(&self, old: Box<dyn Garbage>) {
        crate::registry::lock(&self.garbage).push_back(old);
        self.retired.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees a piece of an old generation, if there is one; false when nothing is left to be freed.
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

/// Memory that is freed in pieces: giving back tens of megabytes at once would hold up a hit for a
/// millisecond.
pub(super) trait Garbage: Send {
    /// Frees a piece if that may be; true when nothing is left.
    fn free_some(&mut self) -> bool;
}

/// A generation on its way out.
pub(super) struct Retired<W: Word> {
    generation: *mut Generation<W>,
    era: Ended,
}

// SAFETY: it is the only owner of a generation made of atomics.
unsafe impl<W: Word> Send for Retired<W> {}

impl<W: Word> Retired<W> {
    /// # Safety
    /// The generation came from a box and is out of reach for guards that are taken from now on: it
    /// was replaced as the current one by a `SeqCst` write. No other `Retired` is made of it.
    pub(super) unsafe fn new(generation: *mut Generation<W>) -> Self {
        Retired { generation, era: end_era() }
    }
}

impl<W: Word> Garbage for Retired<W> {
    fn free_some(&mut self) -> bool {
        if !self.era.is_past() {
            return false;
        }
        // SAFETY: out of reach since that era, and all guards of that time are gone: nobody else
        // has it any more.
        let memory = unsafe { &mut (*self.generation).memory };
        memory.truncate(memory.len().saturating_sub(FREED_AT_ONCE));
        memory.shrink_to_fit();
        memory.is_empty()
    }
}

impl<W: Word> Drop for Retired<W> {
    fn drop(&mut self) {
        // SAFETY: dropped by `Shared`, when all of it has been freed in pieces, or when there are
        // no more tables of the store and hence nobody who reads.
        drop(unsafe { Box::from_raw(self.generation) });
    }
}
