//! Old generations: freed when nobody can see them any more, piece by piece.

use super::super::sync::{AtomicUsize, Ordering};
use super::super::word::Word;
use super::generation::{Generation, Slot};

/// Slots that are freed at a time: 256 KiB of narrow ones, which take some tens of microseconds.
const FREED_AT_ONCE: usize = 16 * 1024;

/// What all tables of a store count together.
pub(in super::super) struct Shared {
    pub(in super::super) keys: AtomicUsize,
    pub(in super::super) max_keys: usize,
    /// Memory of old generations that can be freed.
    garbage: std::sync::Mutex<Vec<Box<dyn Garbage>>>,
    /// Old generations whose memory is not freed yet, whether it can be or not.
    pub(super) retired: AtomicUsize,
}

impl Shared {
    pub(in super::super) fn new(max_keys: usize) -> Self {
        Shared {
            keys: AtomicUsize::new(0),
            max_keys,
            garbage: std::sync::Mutex::new(Vec::new()),
            retired: AtomicUsize::new(0),
        }
    }

    /// Frees a piece of an old generation, if there is one; false when nothing is left to be freed.
    pub(in super::super) fn free_some(&self) -> bool {
        if self.retired.load(Ordering::Relaxed) == 0 {
            return false;
        }
        if let Ok(mut garbage) = self.garbage.try_lock()
            && garbage.last_mut().is_some_and(|last| last.free_some())
        {
            garbage.pop();
            self.retired.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }
}

/// A generation on its way out.
pub(super) struct Retired<W: Word>(pub(super) *mut Generation<W>);

// SAFETY: it is the only owner of a generation made of atomics.
unsafe impl<W: Word> Send for Retired<W> {}

impl<W: Word> Retired<W> {
    /// Hands the memory to the callers of the store, who free it piece by piece.
    pub(super) fn scatter(self, shared: &Shared) {
        // SAFETY: the pointer came from a box. Its generation was replaced as the current one before it was retired, and this runs when every guard of
        // that time is gone, so nobody else has it any more.
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
