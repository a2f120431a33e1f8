//! The entries of a shard: a key and its state, each in the smallest of a few layouts. Their sizes:
//!
//! | state \ key | number or IPv4 address | IPv6 address | other key |
//! | --- | --- | --- | --- |
//! | GCRA in whole microseconds, without a name | 20 bytes | 28 | 32 |
//! | other states of two numbers | 28 | 36 | 40 |
//! | states of three numbers | 36 | 44 | 48 |
//! | the log of a moving window (without its hits) | 56 | 64 | 64 |

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::stored_key::{AddressKey, BytesKey, Packed, StoredKey, WordKey};
use crate::algorithm::elastic_window::ElasticWindow;
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::fixed_window_per_key::FixedWindowPerKey;
use crate::algorithm::gcra::{Gcra, GcraState};
use crate::algorithm::level::Level;
use crate::algorithm::moving_window::{self, MovingWindow};
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::{AnyState, Machine, Words};
use crate::time::Timestamp;

/// A key and its state.
#[derive(Debug)]
pub(super) struct Entry<K, T> {
    pub(super) key: K,
    pub(super) state: T,
}

/// Returns the hash of an entry from the hash of its key and the number of its limit. A key has a
/// different hash under each limit, so an entry is found without comparing it with the entries of
/// the same key under other limits.
#[inline(always)]
pub(super) fn entry_hash(key_hash: u64, limit: u32) -> u64 {
    // The factor is 2^64 divided by the golden ratio, rounded to an odd number. The products of
    // consecutive numbers differ in the lowest bits and are spread evenly over the highest bits.
    // hashbrown uses the lowest and the highest bits.
    key_hash ^ u64::from(limit).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<K: StoredKey, T> Entry<K, T> {
    pub(super) fn hash(&self, hasher: &RandomState) -> u64 {
        entry_hash(self.key.key().hash(hasher), self.key.limit())
    }
}

/// The tables of a shard, by the layout of the key.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) words: TablesOf<WordKey>,
    pub(super) addresses: TablesOf<AddressKey>,
    pub(super) bytes: TablesOf<BytesKey>,
}

/// The tables of keys of one layout, by the layout of the state.
#[derive(Debug)]
pub(super) struct TablesOf<K> {
    pub(super) one: HashTable<Entry<K, [Packed; 1]>>,
    pub(super) two: HashTable<Entry<K, [Packed; 2]>>,
    pub(super) three: HashTable<Entry<K, [Packed; 3]>>,
    pub(super) logs: HashTable<Entry<K, moving_window::MovingWindowState>>,
}

impl<K> Default for TablesOf<K> {
    fn default() -> Self {
        TablesOf {
            one: HashTable::new(),
            two: HashTable::new(),
            three: HashTable::new(),
            logs: HashTable::new(),
        }
    }
}

impl<K: StoredKey> TablesOf<K> {
    pub(super) fn len(&self) -> usize {
        self.one.len() + self.two.len() + self.three.len() + self.logs.len()
    }

    /// Removes all keys of this limit.
    pub(super) fn remove_limit(&mut self, limit: u32) {
        self.one.retain(|entry| entry.key.limit() != limit);
        self.two.retain(|entry| entry.key.limit() != limit);
        self.three.retain(|entry| entry.key.limit() != limit);
        self.logs.retain(|entry| entry.key.limit() != limit);
    }
}

impl Tables {
    pub(super) fn len(&self) -> usize {
        self.words.len() + self.addresses.len() + self.bytes.len()
    }

    /// Removes all keys of this limit.
    pub(super) fn remove_limit(&mut self, limit: u32) {
        self.words.remove_limit(limit);
        self.addresses.remove_limit(limit);
        self.bytes.remove_limit(limit);
    }
}

/// The layout that stores a complete state, including a fraction of a microsecond.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whole {}

/// The layout of a state of GCRA whose fraction of a microsecond is always zero and is not stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoPart {}

/// A machine whose states are stored in a shard in the layout `L`: [`Whole`] or [`NoPart`].
pub(super) trait Stored<L>: Machine {
    type Kept: std::fmt::Debug;

    fn table<K>(tables: &mut TablesOf<K>) -> &mut HashTable<Entry<K, Self::Kept>>;
    /// Takes the state out. The caller then calls `put`.
    fn take(kept: &mut Self::Kept) -> Self::State;
    fn put(kept: &mut Self::Kept, state: Self::State);
    fn keep(state: Self::State) -> Self::Kept;
    fn peek<R>(kept: &Self::Kept, f: impl FnOnce(&Self::State) -> R) -> R;
    /// Converts the state of any machine to that of this machine. `None` if it belongs to another
    /// machine.
    fn of_any(state: AnyState) -> Option<Self::State>;
}

macro_rules! stored_as_numbers {
    ($layout:ty, $machine:ty, $count:literal, $table:ident, $($variant:ident)|+, $to:expr, $from:expr) => {
        impl Stored<$layout> for $machine {
            type Kept = [Packed; $count];

            #[inline(always)]
            fn table<K>(tables: &mut TablesOf<K>) -> &mut HashTable<Entry<K, Self::Kept>> {
                &mut tables.$table
            }

            #[inline(always)]
            fn take(kept: &mut Self::Kept) -> Self::State {
                $from(kept.map(|Packed(number)| number))
            }

            #[inline(always)]
            fn put(kept: &mut Self::Kept, state: Self::State) {
                *kept = <Self as Stored<$layout>>::keep(state);
            }

            #[inline(always)]
            fn keep(state: Self::State) -> Self::Kept {
                $to(state).map(Packed)
            }

            fn peek<R>(kept: &Self::Kept, f: impl FnOnce(&Self::State) -> R) -> R {
                f(&$from(kept.map(|Packed(number)| number)))
            }

            fn of_any(state: AnyState) -> Option<Self::State> {
                match state {
                    $(AnyState::$variant(state))|+ => Some(state),
                    _ => None,
                }
            }
        }
    };
}

macro_rules! stored_whole {
    ($machine:ty, $count:literal, $table:ident, $($variant:ident)|+) => {
        stored_as_numbers!(
            Whole, $machine, $count, $table, $($variant)|+, Words::to_words, Words::from_words
        );
    };
}

stored_whole!(FixedWindow, 2, two, FixedWindow);
stored_whole!(FixedWindowPerKey, 2, two, FixedWindowPerKey);
stored_whole!(ElasticWindow, 2, two, ElasticWindow);
stored_whole!(Gcra, 2, two, Gcra);
stored_whole!(SlidingWindow, 3, three, SlidingWindow);
stored_whole!(Level, 3, three, TokenBucket | LeakyBucket);
stored_as_numbers!(
    NoPart,
    Gcra,
    1,
    one,
    Gcra,
    |state: GcraState| [state.tat.as_micros()],
    |[tat]: [u64; 1]| GcraState { tat: Timestamp::from_micros(tat), part: 0 }
);

impl Stored<Whole> for MovingWindow {
    type Kept = moving_window::MovingWindowState;

    fn table<K>(tables: &mut TablesOf<K>) -> &mut HashTable<Entry<K, Self::Kept>> {
        &mut tables.logs
    }

    fn take(kept: &mut moving_window::MovingWindowState) -> moving_window::MovingWindowState {
        std::mem::take(kept)
    }

    fn put(kept: &mut moving_window::MovingWindowState, state: moving_window::MovingWindowState) {
        *kept = state;
    }

    fn keep(state: moving_window::MovingWindowState) -> moving_window::MovingWindowState {
        state
    }

    fn peek<R>(
        kept: &moving_window::MovingWindowState,
        f: impl FnOnce(&moving_window::MovingWindowState) -> R,
    ) -> R {
        f(kept)
    }

    fn of_any(state: AnyState) -> Option<moving_window::MovingWindowState> {
        match state {
            AnyState::MovingWindow(state) => Some(state),
            _ => None,
        }
    }
}
