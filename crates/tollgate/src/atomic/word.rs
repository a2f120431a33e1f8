//! A state in one word that a single compare-exchange replaces.
//!
//! A word leads with flags; the rest is the state as its algorithm packs it ([`super::pack`]).
//!
//! | word | meaning |
//! | --- | --- |
//! | 0 | void: the slot is claimed, its first state is yet to come |
//! | 1 | cleared: counts as fresh. Not void, so that a late thread cannot write a first state there |
//! | `PRESENT` and a payload | a state |
//! | `FROZEN` and a state | will not change any more, belongs into the next generation |
//! | `FROZEN` alone | dead: nothing to bring along |
//!
//! `USED` says that the key was used since its age was last checked.

#[cfg(not(loom))]
use super::sync::AtomicU128;
use super::sync::{AtomicU64, Ordering};

/// A word that is replaced as a whole: `u64` where the state fits, else `u128`.
pub(super) trait Word: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    type Cell: std::fmt::Debug + Send + Sync;

    const VOID: Self;
    const CLEARED: Self;
    const DEAD: Self;

    fn cell(self) -> Self::Cell;
    fn load(cell: &Self::Cell, order: Ordering) -> Self;
    /// Replaces `old` by `new`; the error is the word that was found instead of `old`. Acquires
    /// either way, releases when it succeeds.
    fn replace(cell: &Self::Cell, old: Self, new: Self) -> Result<(), Self>;
    /// [`replace`](Word::replace) in the single order of all `SeqCst` operations.
    fn replace_in_order(cell: &Self::Cell, old: Self, new: Self) -> Result<(), Self>;

    /// A state with this payload, which leaves the flags free.
    fn present(payload: Self) -> Self;
    /// The payload, if it is a state.
    fn payload(self) -> Option<Self>;
    fn is_frozen(self) -> bool;
    fn freeze(self) -> Self;
    fn thaw(self) -> Self;
    fn is_used(self) -> bool;
    fn with_used(self, used: bool) -> Self;
}

macro_rules! word {
    ($type:ty, $cell:ty) => {
        impl Word for $type {
            type Cell = $cell;

            const VOID: $type = 0;
            const CLEARED: $type = 1;
            const DEAD: $type = 1 << (<$type>::BITS - 1);

            #[inline]
            fn cell(self) -> $cell {
                <$cell>::new(self)
            }

            #[inline]
            fn load(cell: &$cell, order: Ordering) -> $type {
                cell.load(order)
            }

            #[inline]
            fn replace(cell: &$cell, old: $type, new: $type) -> Result<(), $type> {
                let done = cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
                done.map(|_| ())
            }

            #[inline]
            fn replace_in_order(cell: &$cell, old: $type, new: $type) -> Result<(), $type> {
                let done = cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
                done.map(|_| ())
            }

            #[inline]
            fn present(payload: $type) -> $type {
                debug_assert!(
                    payload >> (<$type>::BITS - 3) == 0,
                    "the payload leaves the flags free"
                );
                payload | 1 << (<$type>::BITS - 2)
            }

            #[inline]
            fn payload(self) -> Option<$type> {
                (self >> (<$type>::BITS - 2) & 1 == 1).then_some(self << 3 >> 3)
            }

            #[inline]
            fn is_frozen(self) -> bool {
                self & Self::DEAD != 0
            }

            #[inline]
            fn freeze(self) -> $type {
                self | Self::DEAD
            }

            #[inline]
            fn thaw(self) -> $type {
                self & !Self::DEAD
            }

            #[inline]
            fn is_used(self) -> bool {
                self >> (<$type>::BITS - 3) & 1 == 1
            }

            #[inline]
            fn with_used(self, used: bool) -> $type {
                let flag = 1 << (<$type>::BITS - 3);
                if used { self | flag } else { self & !flag }
            }
        }
    };
}

word!(u64, AtomicU64);
#[cfg(not(loom))]
word!(u128, AtomicU128);
