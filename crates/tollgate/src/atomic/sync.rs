//! Atomics and reclamation as the table uses them: the real ones, or loom's, under which every interleaving is tried.

#[cfg(loom)]
pub(super) use model::*;
#[cfg(not(loom))]
pub(super) use real::*;

#[cfg(not(loom))]
mod real {
    pub(in super::super) use portable_atomic::AtomicU128;
    pub(in super::super) use std::sync::Arc;
    pub(in super::super) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
    };

    /// While one is held, nothing that was reachable is freed.
    pub(in super::super) struct Guard(crossbeam_epoch::Guard);

    #[inline]
    pub(in super::super) fn pin() -> Guard {
        Guard(crossbeam_epoch::pin())
    }

    impl Guard {
        /// Runs `free` when every guard of today is gone.
        pub(in super::super) fn retire(&self, free: impl FnOnce() + Send + 'static) {
            self.0.defer(free);
            // A bag is kept by its thread until it is full; this one is large, so hand it on at once.
            self.0.flush();
        }
    }
}

#[cfg(loom)]
mod model {
    pub(in super::super) use loom::sync::Arc;
    pub(in super::super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

    /// loom lets a `SeqCst` load return a value that an earlier `SeqCst` write has replaced; this one returns the last, as the real one does.
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

    pub(in super::super) struct Guard;

    pub(in super::super) fn pin() -> Guard {
        Guard
    }

    impl Guard {
        /// The models are about the table; when memory is freed is crossbeam-epoch's own proof. Here it is not freed at all.
        pub(in super::super) fn retire(&self, free: impl FnOnce() + Send + 'static) {
            drop(free);
        }
    }
}
