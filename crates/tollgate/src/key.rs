//! What is limited: anything that can be a key, looked up without copying.

mod long;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use long::ShortKey;

/// Something that can be limited: a user, an address, an API key.
///
/// - Text and bytes are keys as they are; an empty key is a key like any other.
/// - Integers, addresses, `char` and `bool` are keys by their usual text, so that `42` in Rust and
///   `"42"` from another language are the same key on a shared store.
/// - Tuples of one to six keys are framed: `("a", "bc")` and `("ab", "c")` are two keys, and so are
///   `("a",)` and `"a"`.
/// - `Some(key)` is the key itself. `None` is a key that equals no text and no tuple of keys.
///
/// One client may have many addresses: see [`client_address`](crate::client_address).
///
/// A key may have any length. Stores keep the digest of one that is longer than 256 bytes, so a
/// long key takes no more memory than a short one: see [`KeyRef::LONGEST`], also for the
/// probability that two of them are taken for one.
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
/// For a type of your own, hand on what makes it a key:
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
    /// Calls `f` with the key's bytes.
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R;
}

/// A key as stores see it: bytes, and whether they are one part or several framed ones.
///
/// ```
/// use tollgate::Key;
/// assert_eq!("a".with_key(|key| key.bytes().to_vec()), b"a");
/// assert_ne!(("a", "b").with_key(|key| key.form()), "a".with_key(|key| key.form()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyRef<'a> {
    form: Form,
    bytes: &'a [u8],
}

/// How the bytes of a key are to be read. Two keys of different forms are different keys.
///
/// ```
/// use tollgate::{Key, key::Form};
/// assert_eq!("a".with_key(|key| key.form()), Form::Plain);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Form {
    /// One part: the bytes are the key.
    Plain,
    /// Several parts, each as form, length and bytes.
    Tuple,
    /// A tag and a key, framed as a tuple of two.
    Tagged,
    /// The SHA-256 of the form and the bytes of a key that is longer than [`KeyRef::LONGEST`].
    Digest,
}

impl Form {
    /// The form of that number, for stores that write keys down as `form as u8` and bytes.
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
    /// A key of one part.
    ///
    /// ```
    /// assert_eq!(tollgate::KeyRef::plain(b"a").bytes(), b"a");
    /// ```
    #[must_use]
    pub const fn plain(bytes: &'a [u8]) -> Self {
        KeyRef { form: Form::Plain, bytes }
    }

    /// The bytes, framed if there are several parts.
    ///
    /// ```
    /// assert_eq!(tollgate::KeyRef::plain(b"").bytes(), b"");
    /// ```
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How the bytes are to be read.
    ///
    /// ```
    /// assert_eq!(tollgate::KeyRef::plain(b"").form(), tollgate::key::Form::Plain);
    /// ```
    #[must_use]
    pub const fn form(self) -> Form {
        self.form
    }

    /// A short digest that is the same in every process, to name a key to others that know it. It
    /// tells nobody the key: many keys share each of its 65,536 values.
    ///
    /// ```
    /// use tollgate::Key;
    /// assert_eq!("alice".with_key(|key| key.digest()), 0x22e1);
    /// ```
    #[must_use]
    pub fn digest(self) -> u16 {
        // FNV-1a of 64 bits, folded.
        let bytes = std::iter::once(self.form as u8).chain(self.bytes.iter().copied());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) as u16
    }

    /// Feeds the key to a hasher: the bytes, and the form where it is not the usual one.
    #[inline(always)]
    pub(crate) fn hash(self, hasher: &impl std::hash::BuildHasher) -> u64 {
        use std::hash::Hasher as _;
        let mut hasher = hasher.build_hasher();
        hasher.write(self.bytes);
        if self.form != Form::Plain {
            hasher.write_u8(self.form as u8);
        }
        hasher.finish()
    }

    /// A key that was taken apart by [`form`](KeyRef::form) and [`bytes`](KeyRef::bytes), for
    /// stores that keep keys.
    ///
    /// ```
    /// use tollgate::{Key, KeyRef};
    /// ("a", 7).with_key(|key| assert_eq!(KeyRef::from_parts(key.form(), key.bytes()), key));
    /// ```
    #[must_use]
    pub const fn from_parts(form: Form, bytes: &'a [u8]) -> Self {
        KeyRef { form, bytes }
    }

    /// The parts of a key of several, as keys themselves: nothing for a plain key or a digest.
    ///
    /// ```
    /// use tollgate::{Key, key::Form};
    /// let forms = ("a", ("b", "c")).with_key(|key| key.inner().map(|key| key.form()).collect::<Vec<_>>());
    /// assert_eq!(forms, [Form::Plain, Form::Tuple]);
    /// ```
    pub fn inner(self) -> impl Iterator<Item = KeyRef<'a>> {
        let mut rest = match self.form {
            Form::Plain | Form::Digest => &[][..],
            Form::Tuple | Form::Tagged => self.bytes,
        };
        std::iter::from_fn(move || {
            let form = Form::from_byte(*rest.first()?)?;
            let (bytes, tail) = split_part(rest)?;
            rest = tail;
            Some(KeyRef { form, bytes })
        })
    }

    /// The parts of the key; a plain key is its own single part, and so is a digest.
    ///
    /// ```
    /// use tollgate::Key;
    /// let parts = ("a", 7).with_key(|key| key.parts().map(<[u8]>::to_vec).collect::<Vec<_>>());
    /// assert_eq!(parts, [b"a", b"7"]);
    /// ```
    pub fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        let (mut plain, mut rest) = match self.form {
            Form::Plain | Form::Digest => (Some(self.bytes), &[][..]),
            Form::Tuple | Form::Tagged => (None, self.bytes),
        };
        std::iter::from_fn(move || {
            if let Some(bytes) = plain.take() {
                return Some(bytes);
            }
            let (part, tail) = split_part(rest)?;
            rest = tail;
            Some(part)
        })
    }
}

/// A key kept for later, as stores keep it: of a long key the digest. See [`KeyRef::LONGEST`].
///
/// ```
/// use tollgate::{Key, OwnedKey};
/// let kept = OwnedKey::new(&("shop", 7));
/// assert_eq!(("shop", 7).with_key(|key| key == kept.as_ref()), true);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    form: Form,
    bytes: Box<[u8]>,
}

impl OwnedKey {
    /// A copy of this key, or of the digest of a long one.
    ///
    /// See the example of [`OwnedKey`].
    pub fn new<K: Key + ?Sized>(key: &K) -> OwnedKey {
        key.with_key(|key| {
            if key.is_long() {
                return long::digest(key);
            }
            OwnedKey { form: key.form, bytes: key.bytes.into() }
        })
    }

    /// The key as stores see it.
    ///
    /// See the example of [`OwnedKey`].
    #[inline]
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { form: self.form, bytes: &self.bytes }
    }
}

impl Key for OwnedKey {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(self.as_ref())
    }
}

/// For people: text where it is text, parts separated by ` / `, and `sha256:` with hexadecimal
/// digits for what was too long to keep.
impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn part(part: KeyRef<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if part.form != Form::Digest {
                return write!(f, "{}", part.bytes.escape_ascii());
            }
            f.write_str("sha256:")?;
            part.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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

/// A key with a tag: keys of one tag live together on one shard of a shared store, so that several
/// of them can be decided at once.
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

/// A key of as many parts as there are, framed as a tuple of them is.
///
/// ```
/// use tollgate::{Key, Parts};
/// let tuple = ("a", "b").with_key(|key| key.bytes().to_vec());
/// assert_eq!(Parts(&["a", "b"]).with_key(|key| key.bytes().to_vec()), tuple);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parts<'a, K>(pub &'a [K]);

impl<K: Key> Key for Parts<'_, K> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let mut frame = Frame::new();
        self.0.iter().for_each(|part| frame.part(part));
        f(KeyRef { form: Form::Tuple, bytes: frame.bytes() })
    }
}

/// Where framed parts are put together: on the stack, unless they are long.
struct Frame {
    inline: [u8; Frame::INLINE],
    len: usize,
    spilled: Vec<u8>,
}

impl Frame {
    const INLINE: usize = 128;

    fn new() -> Self {
        Frame { inline: [0; Frame::INLINE], len: 0, spilled: Vec::new() }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() && self.len + bytes.len() <= Frame::INLINE {
            self.inline[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        } else {
            if self.spilled.is_empty() {
                self.spilled.extend_from_slice(&self.inline[..self.len]);
            }
            self.spilled.extend_from_slice(bytes);
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..self.len] } else { &self.spilled }
    }

    /// One part: its form, its length in groups of seven bits, its bytes.
    fn part(&mut self, key: &impl Key) {
        key.with_key(|part| {
            self.extend(&[part.form as u8]);
            let mut len = part.bytes.len();
            while len >= 0x80 {
                self.extend(&[(len & 0x7f) as u8 | 0x80]);
                len >>= 7;
            }
            self.extend(&[len as u8]);
            self.extend(part.bytes);
        });
    }
}

/// The first framed part and what follows it.
fn split_part(framed: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = framed.get(1..)?;
    let (mut len, mut shift) = (0_usize, 0);
    loop {
        let (byte, tail) = rest.split_first()?;
        rest = tail;
        len |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    rest.split_at_checked(len)
}

/// Text made on the stack.
struct Text {
    bytes: [u8; Text::LEN],
    len: usize,
}

impl Text {
    /// The longest: an IPv6 socket address with a scope.
    const LEN: usize = 72;
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn with_text<R>(value: impl fmt::Display, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
    let mut text = Text { bytes: [0; Text::LEN], len: 0 };
    let written = write!(text, "{value}");
    debug_assert!(written.is_ok(), "integers and addresses fit");
    f(KeyRef::plain(&text.bytes[..text.len]))
}

macro_rules! bytes_keys {
    ($($type:ty),+) => {
        $(impl Key for $type {
            #[inline]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                f(KeyRef::plain(self.as_ref()))
            }
        })+
    };
}

bytes_keys!(str, String, [u8], Vec<u8>, Cow<'_, [u8]>);

impl Key for Cow<'_, str> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::plain(self.as_bytes()))
    }
}

impl<const N: usize> Key for [u8; N] {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(KeyRef::plain(self))
    }
}

macro_rules! text_keys {
    ($($type:ty),+) => {
        $(impl Key for $type {
            #[inline]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                with_text(self, f)
            }
        })+
    };
}

text_keys!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
text_keys!(bool, char, Ipv6Addr, SocketAddr);

/// Its text, by hand: the usual way takes ten times as long, and this is the key of most requests.
impl Key for Ipv4Addr {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let (mut text, mut len) = ([0; 15], 0);
        let mut push = |byte: u8| {
            text[len] = byte;
            len += 1;
        };
        for (index, octet) in self.octets().into_iter().enumerate() {
            if index > 0 {
                push(b'.');
            }
            if octet >= 100 {
                push(b'0' + octet / 100);
            }
            if octet >= 10 {
                push(b'0' + octet / 10 % 10);
            }
            push(b'0' + octet % 10);
        }
        f(KeyRef::plain(&text[..len]))
    }
}

impl Key for IpAddr {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            IpAddr::V4(address) => address.with_key(f),
            IpAddr::V6(address) => address.with_key(f),
        }
    }
}

/// `None` is a tuple of no parts, which no tuple of keys is.
impl<K: Key> Key for Option<K> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            Some(key) => key.with_key(f),
            None => f(KeyRef { form: Form::Tuple, bytes: &[] }),
        }
    }
}

macro_rules! pointer_keys {
    ($($type:ty),+) => {
        $(impl<K: Key + ?Sized> Key for $type {
            #[inline]
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                (**self).with_key(f)
            }
        })+
    };
}

pointer_keys!(&K, &mut K, Box<K>, Arc<K>, Rc<K>);

macro_rules! tuple_keys {
    ($(($($name:ident $index:tt),+))+) => {
        $(impl<$($name: Key),+> Key for ($($name,)+) {
            fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
                let mut frame = Frame::new();
                $(frame.part(&self.$index);)+
                f(KeyRef { form: Form::Tuple, bytes: frame.bytes() })
            }
        })+
    };
}

tuple_keys! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

impl<T: Key, K: Key> Key for Tagged<T, K> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        let mut frame = Frame::new();
        frame.part(&self.0);
        frame.part(&self.1);
        f(KeyRef { form: Form::Tagged, bytes: frame.bytes() })
    }
}

impl Key for KeyRef<'_> {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        f(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_keys_by_their_text() {
        let texts = ["0.0.0.0", "1.22.133.9", "10.100.200.255", "255.255.255.255", "192.0.2.1"];
        for text in texts {
            let address: Ipv4Addr = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            address.with_key(|key| assert_eq!(key.bytes(), text.as_bytes()));
            IpAddr::V4(address).with_key(|key| assert_eq!(key.bytes(), text.as_bytes()));
        }
        let v6: IpAddr = "2001:db8::1".parse().unwrap_or_else(|e| panic!("{e}"));
        v6.with_key(|key| assert_eq!(key.bytes(), b"2001:db8::1"));
    }
}
