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
    pub(in super::super) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering,
    };

    pub(in super::super) struct Guard;

    pub(in super::super) fn pin() -> Guard {
        Guard
    }

    impl Guard {
        /// The models are about the table; when memory is freed is crossbeam-epoch's own proof. Here nothing is freed.
        pub(in super::super) fn retire(&self, free: impl FnOnce() + Send + 'static) {
            std::mem::forget(free);
        }
    }
}
