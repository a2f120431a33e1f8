//! Decides when unlinked memory may be freed: when no thread can still be reading it.
//!
//! Every thread has a *seat*. Before a thread reads, it writes the current era to its seat, and
//! when it is done, it writes zero. A thread that has unlinked memory ends the current era. Memory
//! that was unlinked in an era may be freed as soon as no seat shows that era or an earlier one.
//!
//! That is safe because four steps have one total order (`SeqCst`). A reader (1) writes its seat
//! and then (2) follows the link. The thread that frees (3) removes the link and then (4) reads the
//! seats. If the reader found the link, (2) was before (3), so (1) was before (4), and the freeing
//! thread sees the seat. The seat does not show a later era, because that era began after (3).
//!
//! Reading costs one locked instruction and writes no shared memory, so threads do not slow each
//! other down. Seats are never freed. Their number is the largest number of threads that existed at
//! the same time.

use std::marker::PhantomData;
use std::sync::PoisonError;

use super::sync::{AtomicBool, EraCell, Mutex, Ordering};

/// The era on the seat of a thread that is not reading.
const NOBODY: u64 = 0;

/// The current era and all seats.
#[derive(Debug)]
pub(super) struct Eras {
    now: EraCell,
    seats: Mutex<Vec<&'static Seat>>,
}

/// The place where a thread shows which era it reads in. Seats are 128 bytes apart, because some
/// processors fetch two cache lines together.
#[repr(align(128))]
#[derive(Debug)]
struct Seat {
    era: EraCell,
    taken: AtomicBool,
}

/// An era that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    era: u64,
    eras: &'static Eras,
}

/// While a pinned era exists, no memory that was linked when it was pinned is freed. It stays on
/// its thread, and pinned eras are dropped in the reverse order of their creation.
pub(super) struct PinnedEra {
    seat: &'static Seat,
    hold: Hold,
    stays: PhantomData<*const ()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// The thread began to read with this guard.
    First,
    /// The thread was already reading.
    Nested,
    /// The seat belongs to this guard only, and is returned when the guard is dropped.
    Borrowed,
}

impl Eras {
    fn take_seat(&self) -> &'static Seat {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let free = seats.iter().copied().find(|seat| !seat.taken.swap(true, Ordering::AcqRel));
        if let Some(seat) = free {
            return seat;
        }
        let (era, taken) = (EraCell::new(NOBODY), AtomicBool::new(true));
        let seat: &'static Seat = Box::leak(Box::new(Seat { era, taken }));
        seats.push(seat);
        seat
    }

    /// Returns a guard, or `None` if the thread is already reading.
    #[inline(always)]
    fn enter(&self, seat: &'static Seat) -> Option<PinnedEra> {
        // Only the thread of the seat writes its era.
        if seat.era.load(Ordering::Relaxed) != NOBODY {
            return None;
        }
        seat.era.store(self.now.load(Ordering::SeqCst), Ordering::SeqCst);
        Some(PinnedEra::new(seat, Hold::First))
    }

    /// Ends the era, after memory was unlinked by a `SeqCst` write.
    fn end(&'static self) -> Ended {
        Ended { era: self.now.fetch_add(1, Ordering::SeqCst), eras: self }
    }
}

impl Ended {
    /// Returns whether no thread can still be reading what was unlinked in this era.
    pub(super) fn is_past(self) -> bool {
        let reads = |seat: &&'static Seat| {
            let era = seat.era.load(Ordering::SeqCst);
            era != NOBODY && era <= self.era
        };
        // A seat that is added later belongs to a reader that begins later.
        let seats = self.eras.seats.lock().unwrap_or_else(PoisonError::into_inner);
        !seats.iter().any(reads)
    }
}

impl PinnedEra {
    #[inline(always)]
    fn new(seat: &'static Seat, hold: Hold) -> PinnedEra {
        PinnedEra { seat, hold, stays: PhantomData }
    }
}

impl Drop for PinnedEra {
    #[inline(always)]
    fn drop(&mut self) {
        if self.hold == Hold::Nested {
            return;
        }
        // The order is `Release`, because a thread that sees no reader here may free the memory
        // that this thread has read.
        self.seat.era.store(NOBODY, Ordering::Release);
        if self.hold == Hold::Borrowed {
            self.seat.taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(not(loom))]
pub(super) use process::{end_era, pin, pin_quickly};

/// The eras of this process and the seats of its threads.
#[cfg(not(loom))]
mod process {
    use std::cell::Cell;

    use super::*;

    static ERAS: Eras = Eras { now: EraCell::new(NOBODY + 1), seats: Mutex::new(Vec::new()) };

    std::thread_local! {
        /// The seat of this thread. It has no destructor, so that reading it is a plain load.
        static SEAT: Cell<Option<&'static Seat>> = const { Cell::new(None) };
        static LEAVING: Leaving = const { Leaving };
    }

    /// Releases the seat when the thread ends.
    struct Leaving;

    impl Drop for Leaving {
        fn drop(&mut self) {
            if let Some(seat) = SEAT.take() {
                seat.taken.store(false, Ordering::Release);
            }
        }
    }

    /// Returns a guard under which this thread may read the table.
    pub(in super::super) fn pin() -> PinnedEra {
        match SEAT.get() {
            Some(seat) => ERAS.enter(seat).unwrap_or(PinnedEra::new(seat, Hold::Nested)),
            None => sit_down(),
        }
    }

    /// Does the same as [`pin`] for the fast path. `None` if that takes more than a few
    /// instructions: on the first call of a thread, and if the thread is already reading.
    #[inline(always)]
    pub(in super::super) fn pin_quickly() -> Option<PinnedEra> {
        ERAS.enter(SEAT.get()?)
    }

    #[cold]
    fn sit_down() -> PinnedEra {
        let seat = ERAS.take_seat();
        // A thread that is ending cannot keep a seat, so the guard borrows it.
        let kept = LEAVING.try_with(|_| SEAT.set(Some(seat))).is_ok();
        seat.era.store(ERAS.now.load(Ordering::SeqCst), Ordering::SeqCst);
        PinnedEra::new(seat, if kept { Hold::First } else { Hold::Borrowed })
    }

    /// Ends the era, after memory was unlinked by a `SeqCst` write.
    pub(in super::super) fn end_era() -> Ended {
        ERAS.end()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    fn eras() -> &'static Eras {
        Box::leak(Box::new(Eras { now: EraCell::new(NOBODY + 1), seats: Mutex::new(Vec::new()) }))
    }

    /// Two places, one of which is linked. Freeing a place is modelled as a write, which loom
    /// rejects while another thread reads the place.
    struct Places {
        current: EraCell,
        places: [UnsafeCell<()>; 2],
    }

    impl Places {
        fn new() -> Arc<Places> {
            Arc::new(Places { current: EraCell::new(0), places: Default::default() })
        }

        fn read(&self, eras: &'static Eras, seat: &'static Seat) {
            let guard = eras.enter(seat).expect("not reading");
            let current = self.current.load(Ordering::SeqCst);
            self.places[current as usize].with(|_| ());
            drop(guard);
        }

        fn free_first(&self, eras: &'static Eras) {
            self.current.store(1, Ordering::SeqCst);
            if eras.end().is_past() {
                self.places[0].with_mut(|_| ());
            }
        }
    }

    #[test]
    fn memory_is_not_freed_while_a_thread_reads_it() {
        loom::model(|| {
            let (eras, places) = (eras(), Places::new());
            let readers = [(); 2].map(|()| {
                let places = Arc::clone(&places);
                thread::spawn(move || {
                    let seat = eras.take_seat();
                    places.read(eras, seat);
                    seat.taken.store(false, Ordering::Release);
                })
            });
            places.free_first(eras);
            for reader in readers {
                reader.join().expect("no thread panics");
            }
        });
    }

    #[test]
    fn memory_is_not_freed_while_a_thread_reads_for_the_second_time() {
        loom::model(|| {
            let (eras, places) = (eras(), Places::new());
            let seat = eras.take_seat();
            let reader = {
                let places = Arc::clone(&places);
                thread::spawn(move || {
                    places.read(eras, seat);
                    places.read(eras, seat);
                })
            };
            places.free_first(eras);
            reader.join().expect("no thread panics");
        });
    }
}
