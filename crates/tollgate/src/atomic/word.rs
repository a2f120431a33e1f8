//! A state in one word, which a single compare-exchange replaces.
//!
//! The highest three bits of a word are flags. The other bits are the payload: the state as its
//! algorithm packs it ([`super::pack`]).
//!
//! | word | meaning |
//! | --- | --- |
//! | 0 | void: the slot is claimed, but its first state is not yet written |
//! | 1 | cleared: counts as fresh, but a delayed thread cannot write a first state |
//! | `PRESENT` and a payload | a state |
//! | `FROZEN` and a state | the state never changes again, and must be copied to the next generation |
//! | `FROZEN` alone | dead: there is no state to copy |
//!
//! The flag `USED` means that the key was used since its age was last checked.

#[cfg(not(loom))]
use super::sync::AtomicU128;
use super::sync::{AtomicU64, Ordering};

/// A word that is replaced as a whole: `u64` if the state fits, otherwise `u128`.
pub(super) trait Word: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    type Cell: std::fmt::Debug + Send + Sync;

    const VOID: Self;
    const CLEARED: Self;
    const DEAD: Self;

    fn cell(self) -> Self::Cell;
    fn load(cell: &Self::Cell, order: Ordering) -> Self;
    /// Replaces `old` by `new`. The error is the word that was found instead of `old`. The memory
    /// order is `AcqRel` if it succeeds, and `Acquire` if it fails.
    fn replace(cell: &Self::Cell, old: Self, new: Self) -> Result<(), Self>;
    /// Does the same as [`replace`](Word::replace), in the single total order of all `SeqCst`
    /// operations.
    fn replace_in_order(cell: &Self::Cell, old: Self, new: Self) -> Result<(), Self>;

    /// Returns the word for a state with this payload. The highest three bits of the payload are
    /// zero.
    fn present(payload: Self) -> Self;
    /// Returns the payload, if the word is a state.
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
                    "the flag bits of a payload are zero"
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
