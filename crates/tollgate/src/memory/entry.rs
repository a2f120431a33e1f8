//! What a shard keeps for a key: 24 bytes for the key, then the state.

use crate::algorithm::elastic_window::ElasticWindow;
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::fixed_window_per_key::FixedWindowPerKey;
use crate::algorithm::gcra::Gcra;
use crate::algorithm::level::Level;
use crate::algorithm::moving_window::{self, MovingWindow};
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::{AnyState, Machine, Words};
use crate::key::{Form, KeyRef};
use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// A key and its state.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) key: StoredKey,
    pub(super) state: T,
}

/// The number of the limit, the key, and whether it was used since the last look at its age. Short
/// keys lie in place.
#[derive(Debug)]
pub(super) enum StoredKey {
    Inline { limit: u32, meta: Meta, bytes: [u8; StoredKey::INLINE] },
    Heap { limit: u32, meta: Meta, bytes: Box<[u8]> },
}

/// Length of an inline key in the low five bits, then the form in two, then `used`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta(u8);

impl Meta {
    const USED: u8 = 0x80;

    fn new(form: Form, len: usize) -> Self {
        Meta((form as u8) << 5 | len as u8)
    }

    fn len(self) -> usize {
        usize::from(self.0 & 0x1f)
    }

    fn form(self) -> Form {
        match self.0 >> 5 & 3 {
            0 => Form::Plain,
            1 => Form::Tuple,
            2 => Form::Tagged,
            _ => Form::Digest,
        }
    }
}

/// The hash of a key of one limit, made of the hash of the key. One key under many limits has as
/// many different hashes, so it is found without comparing it with its siblings.
#[inline]
pub(super) fn entry_hash(key_hash: u64, limit: u32) -> u64 {
    // An odd factor, 2^64 by the golden ratio: consecutive numbers differ in their lowest bits and
    // are spread over the highest, which is what hashbrown looks at.
    key_hash ^ u64::from(limit).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<T> Entry<T> {
    pub(super) fn hash(&self, hasher: &RandomState) -> u64 {
        entry_hash(self.key.key().hash(hasher), self.key.limit())
    }
}

impl StoredKey {
    const INLINE: usize = 18;

    pub(super) fn new(limit: u32, key: KeyRef<'_>) -> Self {
        let len = key.bytes().len();
        if len <= StoredKey::INLINE {
            let mut bytes = [0; StoredKey::INLINE];
            bytes[..len].copy_from_slice(key.bytes());
            StoredKey::Inline { limit, meta: Meta::new(key.form(), len), bytes }
        } else {
            StoredKey::Heap { limit, meta: Meta::new(key.form(), 0), bytes: key.bytes().into() }
        }
    }

    #[inline]
    pub(super) fn is(&self, number: u32, key: KeyRef<'_>) -> bool {
        self.limit() == number && self.key() == key
    }

    #[inline]
    pub(super) fn limit(&self) -> u32 {
        match self {
            StoredKey::Inline { limit, .. } | StoredKey::Heap { limit, .. } => *limit,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> KeyRef<'_> {
        match self {
            StoredKey::Inline { meta, bytes, .. } => {
                KeyRef::from_parts(meta.form(), &bytes[..meta.len().min(StoredKey::INLINE)])
            }
            StoredKey::Heap { meta, bytes, .. } => KeyRef::from_parts(meta.form(), bytes),
        }
    }

    /// Marks the key as used, or not; tells what it was.
    pub(super) fn replace_used(&mut self, used: bool) -> bool {
        let (StoredKey::Inline { meta, .. } | StoredKey::Heap { meta, .. }) = self;
        let was = meta.0 & Meta::USED != 0;
        meta.0 = meta.0 & !Meta::USED | u8::from(used) << 7;
        was
    }
}

/// The tables of a shard, one for each size of state.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) two: HashTable<Entry<[u64; 2]>>,
    pub(super) three: HashTable<Entry<[u64; 3]>>,
    pub(super) logs: HashTable<Entry<moving_window::MovingWindowState>>,
}

/// How the states of a machine lie in a shard.
pub(super) trait Stored: Machine {
    type Kept: std::fmt::Debug;

    fn table(tables: &mut Tables) -> &mut HashTable<Entry<Self::Kept>>;
    /// Takes the state out; `put` follows.
    fn take(kept: &mut Self::Kept) -> Self::State;
    fn put(kept: &mut Self::Kept, state: Self::State);
    fn keep(state: Self::State) -> Self::Kept;
    fn peek<R>(kept: &Self::Kept, f: impl FnOnce(&Self::State) -> R) -> R;
    /// The state as this machine knows it, out of one that could be any's.
    fn of_any(state: AnyState) -> Option<Self::State>;
}

macro_rules! stored_as_words {
    ($machine:ty, $words:ty, $table:ident, $($variant:ident)|+) => {
        impl Stored for $machine {
            type Kept = $words;

            fn table(tables: &mut Tables) -> &mut HashTable<Entry<$words>> {
                &mut tables.$table
            }

            #[inline]
            fn take(kept: &mut $words) -> Self::State {
                Words::from_words(*kept)
            }

            #[inline]
            fn put(kept: &mut $words, state: Self::State) {
                *kept = state.to_words();
            }

            fn keep(state: Self::State) -> $words {
                state.to_words()
            }

            fn peek<R>(kept: &$words, f: impl FnOnce(&Self::State) -> R) -> R {
                f(&Words::from_words(*kept))
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

stored_as_words!(FixedWindow, [u64; 2], two, FixedWindow);
stored_as_words!(FixedWindowPerKey, [u64; 2], two, FixedWindowPerKey);
stored_as_words!(ElasticWindow, [u64; 2], two, ElasticWindow);
stored_as_words!(Gcra, [u64; 2], two, Gcra);
stored_as_words!(SlidingWindow, [u64; 3], three, SlidingWindow);
stored_as_words!(Level, [u64; 3], three, TokenBucket | LeakyBucket);

impl Stored for MovingWindow {
    type Kept = moving_window::MovingWindowState;

    fn table(tables: &mut Tables) -> &mut HashTable<Entry<moving_window::MovingWindowState>> {
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
