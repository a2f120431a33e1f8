//! The atomics and the memory reclamation that the table uses: the real ones, or those of loom,
//! which tries every interleaving of the threads.

#[cfg(loom)]
pub(super) use model::*;
#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(not(loom))]
mod real {
    pub(in super::super) use portable_atomic::AtomicU128;
    pub(in super::super) use std::sync::Arc;
    pub(in super::super) use std::sync::Mutex;
    pub(in super::super) use std::sync::atomic::AtomicU64 as EraCell;
    pub(in super::super) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
    };

    pub(in super::super) use super::super::era::{Ended, PinnedEra, end_era, pin, pin_quickly};
}

#[cfg(loom)]
mod model {
    use loom::sync::atomic::fence;
    pub(in super::super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
    pub(in super::super) use loom::sync::{Arc, Mutex};

    /// An atomic whose `SeqCst` load returns the latest value, as on real processors. In loom a
    /// `SeqCst` load may return a value that an earlier `SeqCst` write has replaced.
    #[derive(Debug)]
    pub(in super::super) struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(in super::super) fn new(value: u64) -> Self {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(in super::super) fn load(&self, order: Ordering) -> u64 {
            match order {
                Ordering::SeqCst => self.0.fetch_or(0, Ordering::Acquire),
                _ => self.0.load(order),
            }
        }
    }

    impl std::ops::Deref for AtomicU64 {
        type Target = loom::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }

    /// An atomic for `era`, where a store is followed by a load of another location. loom orders
    /// the two only if a fence is between them. So here a fence follows every `SeqCst` write, which
    /// has the same effect as on processors.
    #[derive(Debug)]
    pub(in super::super) struct EraCell(loom::sync::atomic::AtomicU64);

    impl EraCell {
        pub(in super::super) fn new(value: u64) -> Self {
            EraCell(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(in super::super) fn load(&self, order: Ordering) -> u64 {
            // There is no fence here, because it would also order a weaker store before this load.
            self.0.load(if order == Ordering::SeqCst { Ordering::Acquire } else { order })
        }

        pub(in super::super) fn store(&self, value: u64, order: Ordering) {
            if order == Ordering::SeqCst {
                self.0.store(value, Ordering::Release);
                return fence(Ordering::SeqCst);
            }
            self.0.store(value, order);
        }

        pub(in super::super) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            assert_eq!(order, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let before = self.0.fetch_add(value, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            before
        }
    }

    pub(in super::super) struct PinnedEra;

    pub(in super::super) fn pin() -> PinnedEra {
        PinnedEra
    }

    /// A stand-in for the end of an era. The models of the table free no memory, so it never
    /// permits that. The module `era` has models of its own for freeing.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Ended;

    pub(in super::super) fn end_era() -> Ended {
        Ended
    }

    impl Ended {
        pub(in super::super) fn is_past(self) -> bool {
            false
        }
    }
}
