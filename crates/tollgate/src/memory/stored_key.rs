//! The layouts of keys in a shard. A key is stored in the smallest of three layouts that fits. Each
//! layout begins with a tag of four bytes, and none needs a larger alignment.

use super::entry::{Tables, TablesOf};
use crate::key::{Compact, Halves, Kind};

/// A 64-bit number with an alignment of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct Packed(pub(super) u64);

/// The number of the limit, the kind of the key in four bits, and whether the key was used since
/// its age was last checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag(u32);

impl Tag {
    const USED: u32 = 1;
    const KIND: u32 = 0b1111 << 1;
    const LIMIT: u32 = 5;

    #[inline(always)]
    fn new(limit: u32, kind: Kind) -> Tag {
        debug_assert!(limit < MOST_LIMITS as u32, "the number of a limit fits a tag");
        Tag(limit << Tag::LIMIT | (kind as u32) << 1)
    }

    #[inline(always)]
    fn is(self, other: Tag) -> bool {
        (self.0 ^ other.0) & !Tag::USED == 0
    }

    fn limit(self) -> u32 {
        self.0 >> Tag::LIMIT
    }

    fn kind(self) -> Kind {
        // The kind is always valid, because `new` has written it.
        Kind::of_byte(((self.0 & Tag::KIND) >> 1) as u8).unwrap_or(Kind::Plain)
    }

    #[inline(always)]
    fn replace_used(&mut self, used: bool) -> bool {
        let was = self.0 & Tag::USED != 0;
        self.0 = self.0 & !Tag::USED | u32::from(used);
        was
    }
}

/// The largest number of limits whose numbers fit a tag.
pub(super) const MOST_LIMITS: usize = 1 << (u32::BITS - Tag::LIMIT);

/// A key in the layout of a shard.
pub(super) trait StoredKey: Sized {
    /// The form in which a key is looked up.
    type Key<'a>: Copy;

    fn new(limit: u32, key: Self::Key<'_>) -> Self;
    fn is(&self, limit: u32, key: Self::Key<'_>) -> bool;
    fn limit(&self) -> u32;
    fn key(&self) -> Compact<'_>;
    /// Marks the key as used or as not used. Returns the previous mark.
    fn replace_used(&mut self, used: bool) -> bool;
    /// Returns the tables for keys of this layout.
    fn tables(tables: &mut Tables) -> &mut TablesOf<Self>;
}

/// The layout of a number, an IPv4 address, or an IPv4 address with a port.
#[derive(Debug)]
pub(super) struct WordKey {
    tag: Tag,
    word: Packed,
}

impl StoredKey for WordKey {
    type Key<'a> = (Kind, u64);

    fn new(limit: u32, (kind, word): (Kind, u64)) -> Self {
        WordKey { tag: Tag::new(limit, kind), word: Packed(word) }
    }

    #[inline(always)]
    fn is(&self, limit: u32, (kind, word): (Kind, u64)) -> bool {
        self.tag.is(Tag::new(limit, kind)) && self.word == Packed(word)
    }

    fn limit(&self) -> u32 {
        self.tag.limit()
    }

    fn key(&self) -> Compact<'_> {
        Compact::Word(self.tag.kind(), self.word.0)
    }

    #[inline(always)]
    fn replace_used(&mut self, used: bool) -> bool {
        self.tag.replace_used(used)
    }

    fn tables(tables: &mut Tables) -> &mut TablesOf<Self> {
        &mut tables.words
    }
}

/// The layout of an IPv6 address.
#[derive(Debug)]
pub(super) struct AddressKey {
    tag: Tag,
    high: Packed,
    low: Packed,
}

impl StoredKey for AddressKey {
    type Key<'a> = Halves;

    fn new(limit: u32, Halves(high, low): Halves) -> Self {
        AddressKey { tag: Tag::new(limit, Kind::V6), high: Packed(high), low: Packed(low) }
    }

    #[inline(always)]
    fn is(&self, limit: u32, Halves(high, low): Halves) -> bool {
        let same = self.low == Packed(low) && self.high == Packed(high);
        same && self.tag.is(Tag::new(limit, Kind::V6))
    }

    fn limit(&self) -> u32 {
        self.tag.limit()
    }

    fn key(&self) -> Compact<'_> {
        Compact::Address(Halves(self.high.0, self.low.0))
    }

    #[inline(always)]
    fn replace_used(&mut self, used: bool) -> bool {
        self.tag.replace_used(used)
    }

    fn tables(tables: &mut Tables) -> &mut TablesOf<Self> {
        &mut tables.addresses
    }
}

/// The layout of any other key. Short keys are stored inline.
#[derive(Debug)]
pub(super) enum BytesKey {
    Inline { tag: Tag, len: u8, bytes: [u8; BytesKey::INLINE] },
    Heap { tag: Tag, bytes: Box<[u8]> },
}

impl BytesKey {
    const INLINE: usize = 18;

    fn tag(&self) -> Tag {
        let (BytesKey::Inline { tag, .. } | BytesKey::Heap { tag, .. }) = self;
        *tag
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match self {
            BytesKey::Inline { len, bytes, .. } => {
                &bytes[..usize::from(*len).min(BytesKey::INLINE)]
            }
            BytesKey::Heap { bytes, .. } => bytes,
        }
    }
}

impl StoredKey for BytesKey {
    type Key<'a> = (Kind, &'a [u8]);

    fn new(limit: u32, (kind, key): (Kind, &[u8])) -> Self {
        let (tag, len) = (Tag::new(limit, kind), key.len());
        if len <= BytesKey::INLINE {
            let mut bytes = [0; BytesKey::INLINE];
            bytes[..len].copy_from_slice(key);
            BytesKey::Inline { tag, len: len as u8, bytes }
        } else {
            BytesKey::Heap { tag, bytes: key.into() }
        }
    }

    #[inline(always)]
    fn is(&self, limit: u32, (kind, bytes): (Kind, &[u8])) -> bool {
        self.tag().is(Tag::new(limit, kind)) && self.bytes() == bytes
    }

    fn limit(&self) -> u32 {
        self.tag().limit()
    }

    fn key(&self) -> Compact<'_> {
        Compact::Bytes(self.tag().kind(), self.bytes())
    }

    #[inline(always)]
    fn replace_used(&mut self, used: bool) -> bool {
        let (BytesKey::Inline { tag, .. } | BytesKey::Heap { tag, .. }) = self;
        tag.replace_used(used)
    }

    fn tables(tables: &mut Tables) -> &mut TablesOf<Self> {
        &mut tables.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::*;

    #[test]
    fn entries_are_as_small_as_their_documentation_says() {
        fn sizes<K>() -> [usize; 4] {
            let log = size_of::<Entry<K, crate::algorithm::moving_window::MovingWindowState>>();
            let of = [size_of::<Entry<K, [Packed; 1]>>(), size_of::<Entry<K, [Packed; 2]>>()];
            [of[0], of[1], size_of::<Entry<K, [Packed; 3]>>(), log]
        }
        let all = [sizes::<WordKey>(), sizes::<AddressKey>(), sizes::<BytesKey>()];
        assert_eq!(all, [[20, 28, 36, 56], [28, 36, 44, 64], [32, 40, 48, 64]]);
    }
}
