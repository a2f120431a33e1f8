//! The entries of a shard: a key and its state, each in the smallest of a few layouts. Their sizes:
//!
//! | state \ key | number or IPv4 address | IPv6 address | other key |
//! | --- | --- | --- | --- |
//! | GCRA in whole microseconds, without a name | 20 bytes | 28 | 32 |
//! | other states of two numbers | 28 | 36 | 40 |
//! | states of three numbers | 36 | 44 | 48 |
//! | the log of a moving window (without its hits) | 56 | 64 | 64 |
//! | the holders of a concurrency limit (without the holders) | 80 | 88 | 88 |

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::stored_key::{AddressKey, BytesKey, Packed, StoredKey, WordKey};
use crate::algorithm::concurrent::{Concurrent, ConcurrentState};
use crate::algorithm::gcra::{Gcra, GcraState};
use crate::algorithm::moving_window::{MovingWindow, MovingWindowState};
use crate::algorithm::{Machine, Words};
use crate::keyed::entry_hash;
use crate::time::Timestamp;

/// A key and its state.
#[derive(Debug)]
pub(super) struct Entry<K, T> {
    pub(super) key: K,
    pub(super) state: T,
}

impl<K: StoredKey, T> Entry<K, T> {
    pub(super) fn hash(&self, hasher: &RandomState) -> u64 {
        entry_hash(self.key.key().hash(hasher), self.key.limit().into())
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
    pub(super) logs: HashTable<Entry<K, MovingWindowState>>,
    pub(super) holders: HashTable<Entry<K, ConcurrentState>>,
}

impl<K> Default for TablesOf<K> {
    fn default() -> Self {
        TablesOf {
            one: HashTable::new(),
            two: HashTable::new(),
            three: HashTable::new(),
            logs: HashTable::new(),
            holders: HashTable::new(),
        }
    }
}

impl<K: StoredKey> TablesOf<K> {
    pub(super) fn len(&self) -> usize {
        let numbers = self.one.len() + self.two.len() + self.three.len();
        numbers + self.logs.len() + self.holders.len()
    }

    /// Removes all keys of this limit.
    pub(super) fn remove_limit(&mut self, limit: u32) {
        self.one.retain(|entry| entry.key.limit() != limit);
        self.two.retain(|entry| entry.key.limit() != limit);
        self.three.retain(|entry| entry.key.limit() != limit);
        self.logs.retain(|entry| entry.key.limit() != limit);
        self.holders.retain(|entry| entry.key.limit() != limit);
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

/// A stored form of states, which has a table of its own.
pub(super) trait Kept: std::fmt::Debug + Sized + 'static {
    fn table<K>(tables: &mut TablesOf<K>) -> &mut HashTable<Entry<K, Self>>;
}

macro_rules! kept {
    ($($kept:ty: $table:ident,)+) => {
        $(impl Kept for $kept {
            #[inline(always)]
            fn table<K>(tables: &mut TablesOf<K>) -> &mut HashTable<Entry<K, Self>> {
                &mut tables.$table
            }
        })+
    };
}

kept! {
    [Packed; 1]: one,
    [Packed; 2]: two,
    [Packed; 3]: three,
    MovingWindowState: logs,
    ConcurrentState: holders,
}

/// The layout that stores a complete state, including a fraction of a microsecond.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whole {}

/// The layout of a state of GCRA whose fraction of a microsecond is always zero and is not stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoPart {}

/// A machine whose states are stored in a shard in the layout `L`: [`Whole`] or [`NoPart`].
pub(super) trait Stored<L>: Machine {
    type Kept: Kept;

    /// Takes the state out. The caller then calls `put`.
    fn take(kept: &mut Self::Kept) -> Self::State;
    fn keep(state: Self::State) -> Self::Kept;
    fn peek<R>(kept: &Self::Kept, f: impl FnOnce(&Self::State) -> R) -> R;

    #[inline(always)]
    fn put(kept: &mut Self::Kept, state: Self::State) {
        *kept = Self::keep(state);
    }
}

impl<const N: usize, M: Machine> Stored<Whole> for M
where
    M::State: Words<Words = [u64; N]>,
    [Packed; N]: Kept,
{
    type Kept = [Packed; N];

    #[inline(always)]
    fn take(kept: &mut [Packed; N]) -> M::State {
        M::State::from_words(kept.map(|Packed(number)| number))
    }

    #[inline(always)]
    fn keep(state: M::State) -> [Packed; N] {
        state.to_words().map(Packed)
    }

    fn peek<R>(kept: &[Packed; N], f: impl FnOnce(&M::State) -> R) -> R {
        f(&M::State::from_words(kept.map(|Packed(number)| number)))
    }
}

impl Stored<NoPart> for Gcra {
    type Kept = [Packed; 1];

    #[inline(always)]
    fn take(&mut [Packed(tat)]: &mut [Packed; 1]) -> GcraState {
        GcraState { tat: Timestamp::from_micros(tat), part: 0 }
    }

    #[inline(always)]
    fn keep(state: GcraState) -> [Packed; 1] {
        [Packed(state.tat.as_micros())]
    }

    fn peek<R>(&[Packed(tat)]: &[Packed; 1], f: impl FnOnce(&GcraState) -> R) -> R {
        f(&GcraState { tat: Timestamp::from_micros(tat), part: 0 })
    }
}

/// Implements the layout of states that own memory: the state itself.
macro_rules! stored_as_it_is {
    ($($machine:ty: $state:ty,)+) => {
        $(impl Stored<Whole> for $machine {
            type Kept = $state;

            fn take(kept: &mut $state) -> $state {
                std::mem::take(kept)
            }

            fn keep(state: $state) -> $state {
                state
            }

            fn peek<R>(kept: &$state, f: impl FnOnce(&$state) -> R) -> R {
                f(kept)
            }
        })+
    };
}

stored_as_it_is! {
    MovingWindow: MovingWindowState,
    Concurrent: ConcurrentState,
}
