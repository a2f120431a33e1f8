//! Keys: the users, addresses or other objects that are limited. They are looked up without
//! copying.

mod buffer;
mod compact;
mod frame;
mod hash_tag;
mod long;
mod types;
mod value;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use buffer::Buffer;
pub(crate) use compact::{Compact, Kind};
use frame::{Frame, split_part};
pub use hash_tag::{SLOTS, escape, slot_of};
pub(crate) use long::ShortKey;
pub(crate) use value::Halves;
use value::Value;

/// An object that can be limited: a user, an address, an API key.
///
/// - Text and bytes are keys as they are. An empty text is a key like any other.
/// - Integers, addresses, `char` and `bool` are the same keys as their usual text: `42_u64` and
///   `"42"` share a counter on every store, so that another program or an operator can name the key
///   that a Rust program hits. `"042"` is another key. The text is created only where it is needed
///   (for stores on a network and lists of keys). A store in this process hashes and keeps the
///   number.
/// - Tuples of one to six keys keep the borders of their parts: `("a", "bc")` and `("ab", "c")` are
///   different keys, and so are `("a",)` and `"a"`.
/// - `Some(key)` is the key itself. `None` is a key that equals no text and no tuple of keys.
///
/// One client may have many addresses: see [`client_address`](crate::client_address).
///
/// A key may have any length. Of a key that is longer than 256 bytes, stores keep only the digest,
/// so a long key takes no more memory than a short one. [`KeyRef::LONGEST`] states the probability
/// that two long keys have the same digest.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::{Key, Limit, Memory};
///
/// let limiter = Memory::new().limiter(Limit::per_minute(1))?;
/// assert!(limiter.hit("alice").allowed());
/// assert!(limiter.hit(42_u64).allowed());
/// assert!(!limiter.hit("42").allowed());
/// assert!(limiter.hit(("alice", "GET", 7)).allowed());
/// assert!(limiter.hit(None::<u64>).allowed());
/// assert!(!limiter.hit(Some(42)).allowed());
/// assert!(limiter.hit("192.0.2.1".parse::<IpAddr>()?).allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To make your own type a key, call `with_key` of the field that identifies it:
///
/// ```
/// use tollgate::{Key, KeyRef};
///
/// struct User { id: u64, name: String }
///
/// impl Key for User {
///     fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
///         self.id.with_key(f)
///     }
/// }
/// ```
pub trait Key {
    /// Calls `f` with the key as stores see it.
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R;
}

/// A key as stores see it: bytes, and their form (one part or several framed parts).
///
/// ```
/// use tollgate::Key;
/// assert_eq!("a".with_key(|key| key.bytes().to_vec()), b"a");
/// assert_ne!(("a", "b").with_key(|key| key.form()), "a".with_key(|key| key.form()));
/// ```
#[derive(Clone, Copy)]
pub struct KeyRef<'a> {
    form: Form,
    source: Source<'a>,
}

/// The source of the bytes of a key.
#[derive(Clone, Copy)]
enum Source<'a> {
    Bytes(&'a [u8]),
    /// The text of a value is created when it is first needed.
    Value(Value, &'a OnceLock<Buffer>),
    Frame(&'a Frame, &'a OnceLock<Buffer>),
}

/// The structure of the bytes of a key. Two keys of different forms are different keys.
///
/// ```
/// use tollgate::{Key, key::Form};
/// assert_eq!("a".with_key(|key| key.form()), Form::Plain);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Form {
    /// The key has one part, which is its bytes.
    Plain,
    /// The key has several parts. Each is written as its form, its length and its bytes.
    Tuple,
    /// The key has a tag: the tag and the key are framed as a tuple of two parts.
    Tagged,
    /// The bytes are the SHA-256 of the form and the bytes of a key that is longer than
    /// [`KeyRef::LONGEST`].
    Digest,
}

impl Form {
    /// Returns the form with this number. It is for stores that write a key as `form as u8` and its
    /// bytes.
    ///
    /// ```
    /// use tollgate::key::Form;
    /// assert_eq!(Form::from_byte(Form::Tuple as u8), Some(Form::Tuple));
    /// assert_eq!(Form::from_byte(200), None);
    /// ```
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Form> {
        match byte {
            0 => Some(Form::Plain),
            1 => Some(Form::Tuple),
            2 => Some(Form::Tagged),
            3 => Some(Form::Digest),
            _ => None,
        }
    }
}

impl<'a> KeyRef<'a> {
    /// Returns a key of one part.
    ///
    /// ```
    /// assert_eq!(tollgate::KeyRef::plain(b"a").bytes(), b"a");
    /// ```
    #[must_use]
    pub const fn plain(bytes: &'a [u8]) -> Self {
        KeyRef::from_parts(Form::Plain, bytes)
    }

    /// Returns the bytes. If the key has several parts, they are framed. A number or an address is
    /// written as text.
    ///
    /// ```
    /// assert_eq!(tollgate::KeyRef::plain(b"").bytes(), b"");
    /// ```
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self.source {
            Source::Bytes(bytes) => bytes,
            Source::Value(value, text) => text.get_or_init(|| value.text()).bytes(),
            Source::Frame(frame, text) => match text.get() {
                Some(text) => text.bytes(),
                None => frame.text().map_or(frame.bytes(), |new| text.get_or_init(|| new).bytes()),
            },
        }
    }

    /// Returns the form of the bytes.
    ///
    /// ```
    /// assert_eq!(tollgate::KeyRef::plain(b"").form(), tollgate::key::Form::Plain);
    /// ```
    #[must_use]
    pub const fn form(self) -> Form {
        self.form
    }

    /// Returns a short digest that is the same in every process. Processes that know a key use it
    /// to refer to the key. It does not reveal the key, because many keys share each of its 65,536
    /// values.
    ///
    /// ```
    /// use tollgate::Key;
    /// assert_eq!("alice".with_key(|key| key.digest()), 0x22e1);
    /// ```
    #[must_use]
    pub fn digest(self) -> u16 {
        // The hash is FNV-1a of 64 bits, folded to 16 bits.
        let bytes = std::iter::once(self.form as u8).chain(self.bytes().iter().copied());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) as u16
    }

    /// Returns the key with this [`form`](KeyRef::form) and these [`bytes`](KeyRef::bytes), for
    /// stores that keep keys.
    ///
    /// ```
    /// use tollgate::{Key, KeyRef};
    /// ("a", 7).with_key(|key| assert_eq!(KeyRef::from_parts(key.form(), key.bytes()), key));
    /// ```
    #[must_use]
    pub const fn from_parts(form: Form, bytes: &'a [u8]) -> Self {
        KeyRef { form, source: Source::Bytes(bytes) }
    }

    /// Returns the parts of a key with several parts, each as a key. A plain key and a digest have
    /// no parts.
    ///
    /// ```
    /// use tollgate::{Key, key::Form};
    /// let forms = ("a", ("b", "c")).with_key(|key| key.inner().map(|key| key.form()).collect::<Vec<_>>());
    /// assert_eq!(forms, [Form::Plain, Form::Tuple]);
    /// ```
    pub fn inner(self) -> impl Iterator<Item = KeyRef<'a>> {
        let mut rest = match self.form {
            Form::Plain | Form::Digest => &[][..],
            Form::Tuple | Form::Tagged => self.bytes(),
        };
        std::iter::from_fn(move || {
            let (form, bytes, tail) = split_part(rest)?;
            rest = tail;
            Some(KeyRef::from_parts(Form::from_byte(form)?, bytes))
        })
    }

    /// Returns the bytes of each part. A plain key and a digest are one part.
    ///
    /// ```
    /// use tollgate::Key;
    /// let parts = ("a", 7).with_key(|key| key.parts().map(<[u8]>::to_vec).collect::<Vec<_>>());
    /// assert_eq!(parts, [b"a", b"7"]);
    /// ```
    pub fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        let (mut plain, mut rest) = match self.form {
            Form::Plain | Form::Digest => (Some(self.bytes()), &[][..]),
            Form::Tuple | Form::Tagged => (None, self.bytes()),
        };
        std::iter::from_fn(move || {
            if let Some(bytes) = plain.take() {
                return Some(bytes);
            }
            let (_, part, tail) = split_part(rest)?;
            rest = tail;
            Some(part)
        })
    }
}

impl PartialEq for KeyRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form && self.bytes() == other.bytes()
    }
}

impl Eq for KeyRef<'_> {}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.form, self.bytes()).hash(state);
    }
}

/// A copy of a key as stores keep it: the key itself, or the digest of a long key. See
/// [`KeyRef::LONGEST`].
///
/// ```
/// use tollgate::{Key, OwnedKey};
/// let kept = OwnedKey::new(&("shop", 7));
/// assert_eq!(("shop", 7).with_key(|key| key == kept.as_key_ref()), true);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    form: Form,
    bytes: Box<[u8]>,
}

impl OwnedKey {
    /// Creates a copy of this key, or the digest of a long key.
    ///
    /// See the example of [`OwnedKey`].
    pub fn new<K: Key + ?Sized>(key: &K) -> OwnedKey {
        key.with_key(|key| {
            if key.is_long() {
                return long::digest(key);
            }
            OwnedKey { form: key.form, bytes: key.bytes().into() }
        })
    }

    /// Creates a copy of a key that a store has kept, which is never shortened again.
    pub(crate) fn of_stored(key: KeyRef<'_>) -> OwnedKey {
        OwnedKey { form: key.form, bytes: key.bytes().into() }
    }

    /// Returns the key as stores see it.
    ///
    /// See the example of [`OwnedKey`].
    #[inline]
    #[must_use]
    pub fn as_key_ref(&self) -> KeyRef<'_> {
        KeyRef::from_parts(self.form, &self.bytes)
    }
}

impl Key for OwnedKey {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(self.as_key_ref())
    }
}

/// Prints the key for people: text as it is, parts separated by ` / `, and a digest as `sha256:`
/// with hexadecimal digits.
impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn part(part: KeyRef<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if part.form != Form::Digest {
                return write!(f, "{}", part.bytes().escape_ascii());
            }
            f.write_str("sha256:")?;
            part.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
        if matches!(self.form, Form::Plain | Form::Digest) {
            return part(*self, f);
        }
        for (index, inner) in self.inner().enumerate() {
            if index > 0 {
                f.write_str(" / ")?;
            }
            part(inner, f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}(\"{self}\")", self.form)
    }
}

/// A key with a tag. All keys with the same tag are kept on the same shard of a shared store, so
/// that one call can decide several of them.
///
/// ```
/// use tollgate::{Limit, Memory, Tagged};
///
/// let limiter = Memory::new().limiter(Limit::per_minute(1))?;
/// assert!(limiter.hit(Tagged("acme", "alice")).allowed());
/// assert!(limiter.hit(Tagged("acme", "bob")).allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tagged<T, K>(pub T, pub K);

/// A key of any number of parts, framed as a tuple of these parts.
///
/// ```
/// use tollgate::{Key, Parts};
/// let tuple = ("a", "b").with_key(|key| key.bytes().to_vec());
/// assert_eq!(Parts(&["a", "b"]).with_key(|key| key.bytes().to_vec()), tuple);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parts<'a, K>(pub &'a [K]);
