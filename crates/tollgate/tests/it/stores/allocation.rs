//! Tests that decisions on known keys allocate no memory. The allocator counts separately for each
//! thread, so that other tests do not affect the counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tollgate::{Algorithm, Limit, Limiter, Tagged};

use super::{HOUR, Subject, limiter, policy, store, supported};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    // A thread that ends may free and allocate memory after its thread-locals have been destroyed.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

fn add_bytes(bytes: usize, freed: usize) {
    let grown = bytes.cast_signed() - freed.cast_signed();
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + grown));
}

/// Returns the number of bytes that this thread has allocated and not freed.
pub(crate) fn live_bytes() -> usize {
    usize::try_from(BYTES.get()).unwrap_or(0)
}

// SAFETY: every call is passed unchanged to the system's allocator.
#[expect(unsafe_code, reason = "the tests need an allocator that counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        add_bytes(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add_bytes(0, layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        add_bytes(layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        add_bytes(size, layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

const RUNS: u64 = 200;

/// Returns how often `f` allocates in 200 runs, after a first run that may allocate. It is the
/// smallest number of several rounds, because in some rounds Atomic also frees memory that other
/// tests have left.
fn allocations(mut f: impl FnMut()) -> u64 {
    f();
    let mut round = || {
        let before = ALLOCATIONS.get();
        (0..RUNS).for_each(|_| f());
        ALLOCATIONS.get() - before
    };
    (0..20).map(|_| round()).min().unwrap_or_default()
}

const LONG: &str = "a key that is too long to be stored inline";

pub(super) fn decisions_on_known_keys_make_no_allocation<S: Subject>() {
    assert_eq!(
        allocations(|| drop(std::hint::black_box(Box::new(0_u8)))),
        200,
        "each run allocates once"
    );
    let (store, clock) = store::<S>();
    for algorithm in Algorithm::PERIODIC {
        let limit = Limit::new(1_000_000, 24 * HOUR).algorithm(algorithm);
        let Some(wide) = supported(Limiter::new(&store, "", limit.clone())) else { continue };
        let narrow = limiter(&store, &limit.name("narrow").build().expect("valid").to_string());
        // The key is charged beyond its limit, so that no hit passes even after some units have
        // leaked.
        assert!(narrow.charge("key", 1_100_000).used() > 0);
        let counts = [
            // A hit of a moving window adds an entry to its log.
            ("hit", allocations(|| assert!(wide.hit("key").allowed()))),
            ("hit of a long key", allocations(|| assert!(wide.hit(LONG).allowed()))),
            ("hit of a tuple", allocations(|| assert!(wide.hit(("key", LONG, 7)).allowed()))),
            ("hit of a number", allocations(|| assert!(wide.hit(42).allowed()))),
            (
                "later hit",
                allocations(|| {
                    clock.advance(std::time::Duration::from_micros(7));
                    assert!(wide.hit("key").allowed());
                }),
            ),
            (
                "hit_each",
                allocations(|| wide.hit_each(&["key", LONG], |_, hit| assert!(hit.allowed()))),
            ),
            ("take", allocations(|| assert_eq!(wide.take("key", 3).charged(), 3))),
            ("charge", allocations(|| assert!(wide.charge("key", 1).used() > 0))),
            ("set", allocations(|| assert!(wide.set("key", 9).used() > 0))),
            ("denied hit", allocations(|| assert!(!narrow.hit("key").allowed()))),
            (
                "denied hit of a fresh key",
                allocations(|| {
                    assert!(!narrow.hit_n("none", 1_000_001).allowed());
                }),
            ),
            ("peek", allocations(|| assert!(!narrow.peek("key").allowed()))),
            ("peek of a fresh key", allocations(|| assert!(narrow.peek("none").allowed()))),
            (
                "fields",
                allocations(|| {
                    let hit = narrow.hit("key");
                    assert!(
                        hit.used() >= 1 && hit.retry_after() > Some(hit.reset_after() / 1_000_000)
                    );
                    assert_eq!(hit.headline().receipt().units, 0);
                }),
            ),
        ];
        for (what, count) in counts {
            // Only moving windows allocate, and only when their log grows.
            let has_log = algorithm == Algorithm::MovingWindow;
            let writes = has_log && ["later hit", "set"].contains(&what);
            assert!(count == 0 || writes, "{algorithm:?}: a {what} allocates {count} times");
        }
    }
}

/// The allocation is the list of outcomes.
pub(super) fn decisions_on_policies_make_one_allocation<S: Subject>() {
    let (store, _) = store::<S>();
    let text = "1000000/hour; 1000000/day fixed-window; 1000000/day sliding-window; 1000000/day \
                elastic-window; 1000000/day token-bucket; 1000000/day leaky-bucket; 1000000/day; \
                1000000/day fixed-window-per-key";
    let wide = policy(&store, text);
    let narrow = policy(&store, "1000000/hour name=a; 1/hour; 1000000/day fixed-window");
    assert!(narrow.hit("key").allowed());
    let counts = [
        ("hit", allocations(|| assert!(wide.hit("key").allowed()))),
        ("denied hit", allocations(|| assert!(!narrow.hit("key").allowed()))),
        ("peek", allocations(|| assert!(!narrow.peek("key").allowed()))),
        ("headline", allocations(|| assert_eq!(narrow.hit("key").headline().limit(), 1))),
    ];
    for (what, count) in counts {
        assert_eq!(count, RUNS, "{what}");
    }
}

/// For keys of any length, a store takes at most as many bytes per key as the documentation of
/// `max_keys` states.
pub(super) fn keys_of_any_length_take_a_bounded_number_of_bytes<S: Subject>() {
    let (store, _) = store::<S>();
    let limited = limiter(&store, "5/hour sliding-window");
    let check = |count: usize, most: usize, key: &mut dyn FnMut(usize) -> bool| {
        let before = live_bytes();
        assert!((0..count).all(key));
        assert_eq!(store.entries(), count, "each key has an entry of its own");
        let grown = live_bytes().saturating_sub(before) / count;
        assert!(grown <= most, "{grown} bytes per key");
        limited.clear();
        store.sweep();
    };
    let mut huge = "x".repeat(1_000_000);
    check(300, 400, &mut |number| {
        huge.replace_range(..5, &format!("{number:05}"));
        limited.hit(&huge).allowed()
    });
    let header = |number: usize| format!("{number:07}{}", "x".repeat(7_000));
    check(50_000, 400, &mut |number| limited.hit(header(number)).allowed());
    // These keys are as long as possible without being replaced by a digest.
    let longest = |number: usize| format!("{number:0256}");
    check(50_000, 400, &mut |number| limited.hit(longest(number)).allowed());
    let tagged = |number: usize| Tagged(longest(number), longest(number));
    check(20_000, 700, &mut |number| limited.hit(tagged(number)).allowed());
}
