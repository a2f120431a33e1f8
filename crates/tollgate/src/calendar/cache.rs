//! The window of each calendar that is open now.
//!
//! Computing an edge takes a microsecond, and a hit must not. A window lasts for hours at least, so
//! it is kept where all hits find it: in one word, which holds the start and the length in seconds.
//! Only a time outside of the window computes edges, and replaces the word.
//!
//! There are 1024 words, claimed by the first calendars that are used and never released, so the
//! memory does not grow with the calendars that callers make up. A calendar that finds no word
//! computes its edges on every hit.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Calendar;
use crate::time::Timestamp;

const SLOTS: usize = 1024;

/// A calendar looks at this many slots for one that is free.
const TRIES: usize = 32;

const LENGTH_BITS: u32 = 26;
const MICROS: u64 = 1_000_000;

struct Slot {
    /// The code of the calendar that has claimed the slot. 0 if it is free.
    owner: AtomicU64,
    window: AtomicU64,
}

static CACHE: [Slot; SLOTS] =
    [const { Slot { owner: AtomicU64::new(0), window: AtomicU64::new(0) } }; SLOTS];

/// A half-open window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// The windows of a calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    calendar: Calendar,
    cached: Option<&'static AtomicU64>,
}

impl Windows {
    pub(crate) fn new(calendar: Calendar) -> Windows {
        Windows { calendar, cached: claim(calendar.code()) }
    }

    /// Returns the window that contains this time.
    #[inline(always)]
    pub(crate) fn at(&self, now: Timestamp) -> Window {
        if let Some(cached) = self.cached {
            let word = cached.load(Ordering::Relaxed);
            let start = (word >> LENGTH_BITS) * MICROS;
            let length = (word & ((1 << LENGTH_BITS) - 1)) * MICROS;
            if now.as_micros().wrapping_sub(start) < length {
                // Both are below 2^62, because they were timestamps.
                let start = Timestamp::EPOCH.plus_small(start);
                return Window { start, end: start.plus_small(length) };
            }
        }
        self.compute(now)
    }

    #[cold]
    fn compute(&self, now: Timestamp) -> Window {
        let [_, start, end, _] = self.calendar.edges(now);
        let (first, length) = (start.as_micros() / MICROS, end.micros_since(start) / MICROS);
        if let Some(cached) = self.cached
            && first >> (64 - LENGTH_BITS) == 0
            && length >> LENGTH_BITS == 0
        {
            cached.store(first << LENGTH_BITS | length, Ordering::Relaxed);
        }
        Window { start, end }
    }
}

/// Returns the word of a calendar, which is claimed if it is the first time.
fn claim(code: u64) -> Option<&'static AtomicU64> {
    // Fibonacci hashing: codes of similar calendars are near each other.
    let first = (code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
    (first..first + TRIES).map(|index| &CACHE[index % SLOTS]).find_map(|slot| {
        let claimed = slot.owner.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        (claimed.is_ok() || claimed == Err(code)).then_some(&slot.window)
    })
}
