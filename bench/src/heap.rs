//! A global allocator that can count live bytes, only with the feature `heap`: calls of an
//! allocator other than the system's are not inlined, which slows down servers.
#![cfg(feature = "heap")]
#![expect(unsafe_code, reason = "an allocator cannot be written without; it only passes calls on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static HEAP: Heap = Heap;

/// The system's allocator. Counts only after [`count`], because a shared counter would slow down
/// the contenders that allocate in a hit.
struct Heap;

/// Starts counting.
pub(crate) fn count() {
    COUNTING.store(true, Relaxed);
}

/// Bytes allocated and not freed since [`count`].
pub(crate) fn live() -> usize {
    TAKEN.load(Relaxed).saturating_sub(GIVEN_BACK.load(Relaxed))
}

fn add(counter: &AtomicUsize, bytes: usize) {
    if COUNTING.load(Relaxed) {
        counter.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call goes to `System` unchanged, which keeps the contract; counting allocates
// nothing.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(&TAKEN, layout.size());
        // SAFETY: the caller's guarantee holds for this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(&TAKEN, layout.size());
        // SAFETY: the caller's guarantee holds for this call.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(&GIVEN_BACK, layout.size());
        // SAFETY: the caller's guarantee holds for this call.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(&GIVEN_BACK, layout.size());
        add(&TAKEN, size);
        // SAFETY: the caller's guarantee holds for this call.
        unsafe { System.realloc(block, layout, size) }
    }
}
