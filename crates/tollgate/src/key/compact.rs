//! The compact form of keys, which stores in this process hash, compare and keep: numbers and
//! addresses are binary. The *external* form, which callers and other programs see, is text or
//! bytes.

use std::hash::{BuildHasher, Hasher as _};

use super::buffer::Buffer;
use super::value::{Halves, Value};
use super::{Form, KeyRef, OwnedKey, Source, frame};

/// A key in compact form. Two compact keys are equal if and only if they are the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compact<'a> {
    /// A number or an address of at most 64 bits.
    Word(Kind, u64),
    /// An IPv6 address.
    Address(Halves),
    Bytes(Kind, &'a [u8]),
}

/// The kind of the bytes of a compact key: one of the forms, or a kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Plain,
    Tuple,
    Tagged,
    Digest,
    Number,
    Negative,
    V4,
    SocketV4,
    V6,
    SocketV6,
    /// Bytes that a caller passes as a tuple, but that are not the frame of a tuple.
    NotATuple,
    /// Bytes that a caller passes as a tagged key, but that are not the frame of one.
    NotTagged,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Plain,
        Kind::Tuple,
        Kind::Tagged,
        Kind::Digest,
        Kind::Number,
        Kind::Negative,
        Kind::V4,
        Kind::SocketV4,
        Kind::V6,
        Kind::SocketV6,
        Kind::NotATuple,
        Kind::NotTagged,
    ];

    #[inline]
    pub(crate) fn of_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(byte)).copied()
    }

    #[inline(always)]
    pub(super) fn of_form(form: Form) -> Kind {
        match form {
            Form::Plain => Kind::Plain,
            Form::Tuple => Kind::Tuple,
            Form::Tagged => Kind::Tagged,
            Form::Digest => Kind::Digest,
        }
    }

    /// Returns the [`Form`] of the key in its external form.
    pub(super) fn form(self) -> Form {
        match self {
            Kind::Tuple | Kind::NotATuple => Form::Tuple,
            Kind::Tagged | Kind::NotTagged => Form::Tagged,
            Kind::Digest => Form::Digest,
            _ => Form::Plain,
        }
    }

    /// Returns the bytes of the external form if they differ from the compact bytes.
    pub(super) fn text(self, bytes: &[u8]) -> Option<Buffer> {
        match self {
            Kind::Tuple | Kind::Tagged => Some(frame::text_of(bytes)),
            _ => self.value(bytes).map(Value::text),
        }
    }

    fn value(self, bytes: &[u8]) -> Option<Value> {
        let word = || Some(u64::from_le_bytes(bytes.try_into().ok()?));
        let address = |bytes: &[u8]| {
            let (high, low) = bytes.split_first_chunk()?;
            let low = u64::from_be_bytes(low.try_into().ok()?);
            Some(Halves(u64::from_be_bytes(*high), low))
        };
        match self {
            Kind::Number => word().map(Value::Number),
            Kind::Negative => word().map(Value::Negative),
            Kind::V4 => word().map(|word| Value::V4(word as u32)),
            Kind::SocketV4 => word().map(|word| Value::SocketV4((word >> 16) as u32, word as u16)),
            Kind::V6 => address(bytes).map(Value::V6),
            Kind::SocketV6 => {
                let (ip, port) = bytes.split_last_chunk()?;
                Some(Value::SocketV6(address(ip)?, u16::from_be_bytes(*port)))
            }
            _ => None,
        }
    }
}

impl Compact<'_> {
    #[inline(always)]
    pub(crate) fn hash(self, hasher: &impl BuildHasher) -> u64 {
        let mut hasher = hasher.build_hasher();
        match self {
            Compact::Word(kind, word) => {
                hasher.write_u64(word);
                hasher.write_u8(kind as u8);
            }
            Compact::Address(Halves(high, low)) => {
                hasher.write_u64(high);
                hasher.write_u64(low);
                hasher.write_u8(Kind::V6 as u8);
            }
            Compact::Bytes(kind, bytes) => {
                hasher.write(bytes);
                if kind != Kind::Plain {
                    hasher.write_u8(kind as u8);
                }
            }
        }
        hasher.finish()
    }

    /// Returns the key in its external form.
    pub(crate) fn to_owned_key(self) -> OwnedKey {
        let (kind, bytes) = match self {
            Compact::Word(kind, word) => (kind, &word.to_le_bytes()[..]),
            Compact::Address(address) => (Kind::V6, &address.octets()[..]),
            Compact::Bytes(kind, bytes) => (kind, bytes),
        };
        let text = kind.text(bytes);
        let bytes = text.as_ref().map_or(bytes, Buffer::bytes);
        OwnedKey { form: kind.form(), bytes: bytes.into() }
    }
}

impl Value {
    /// Returns the compact form. `room` provides the memory for an IPv6 address with a port, which
    /// does not fit the other variants.
    #[inline(always)]
    fn compact(self, room: &mut [u8; 18]) -> Compact<'_> {
        match self {
            Value::Number(number) => Compact::Word(Kind::Number, number),
            Value::Negative(amount) => Compact::Word(Kind::Negative, amount),
            Value::V4(bits) => Compact::Word(Kind::V4, bits.into()),
            Value::SocketV4(bits, port) => {
                Compact::Word(Kind::SocketV4, u64::from(bits) << 16 | u64::from(port))
            }
            Value::V6(address) => Compact::Address(address),
            Value::SocketV6(address, port) => {
                room[..16].copy_from_slice(&address.octets());
                room[16..].copy_from_slice(&port.to_be_bytes());
                Compact::Bytes(Kind::SocketV6, room)
            }
        }
    }
}

impl KeyRef<'_> {
    /// Calls `f` with the compact form of the key.
    #[inline(always)]
    pub(crate) fn with_compact<R>(self, f: impl FnOnce(Compact<'_>) -> R) -> R {
        let mut room = [0; 18];
        let compact = match self.source {
            Source::Value(value, _) => value.compact(&mut room),
            Source::Frame(frame, _) => Compact::Bytes(Kind::of_form(self.form), frame.bytes()),
            Source::Bytes(bytes) => match self.form {
                Form::Plain => match Value::of_text(bytes) {
                    Some(value) => value.compact(&mut room),
                    None => Compact::Bytes(Kind::Plain, bytes),
                },
                Form::Digest => Compact::Bytes(Kind::Digest, bytes),
                Form::Tuple | Form::Tagged => return with_compact_frame(self.form, bytes, f),
            },
        };
        f(compact)
    }

    /// Hashes the key. A number and its text have the same hash.
    #[inline(always)]
    pub(crate) fn hash(self, hasher: &impl BuildHasher) -> u64 {
        self.with_compact(|key| key.hash(hasher))
    }
}

/// Does what [`KeyRef::with_compact`] does, for a key of several parts in external form.
#[inline(never)]
fn with_compact_frame<R>(form: Form, bytes: &[u8], f: impl FnOnce(Compact<'_>) -> R) -> R {
    match (frame::compact_of(bytes), form) {
        (Some(frame), _) => f(Compact::Bytes(Kind::of_form(form), frame.bytes())),
        (None, Form::Tuple) => f(Compact::Bytes(Kind::NotATuple, bytes)),
        (None, _) => f(Compact::Bytes(Kind::NotTagged, bytes)),
    }
}
