//! Keys as they stand in Redis: `prefix:1:{subject}:namespace:identity`.
//!
//! - `1` is the version of this format.
//! - The subject is the key of the caller. It is the hash tag, so all limits of one subject share a
//!   slot. A key with a tag is `{tag}/key`: all keys of one tag share a slot.
//! - A tuple is `(part,part)`, a tagged key inside a tuple `(tag|key)`. An empty subject is `%`,
//!   because Redis ignores an empty hash tag.
//! - `None` is `%()`: not the tuple of one empty part, which is `()`.
//! - The digest of a key that is longer than [`KeyRef::LONGEST`] is `%#` and its bytes in
//!   hexadecimal.
//! - Bytes that are not printable ASCII, blanks and `% { } ( ) , |` are written `%XX`; in a
//!   namespace and behind a tag also `:`.
//!
//! Nothing runs together: up to the first `}` is the subject, then comes what belongs to its tag up
//! to the next `:`, the namespace up to the next, and the rest is the identity of the limit.

use tollgate::key::Form;
use tollgate::{Error, KeyRef};

const VERSION: &str = "1";

/// The slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;

/// How keys begin.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    start: Box<str>,
}

impl Keyspace {
    pub(crate) fn new(prefix: &str) -> Result<Keyspace, Error> {
        if let Some(bad) = prefix.chars().find(|c| matches!(c, '{' | '}') || !c.is_ascii_graphic())
        {
            return Err(Error::request(format!(
                "prefix {prefix:?}: {bad:?} is not allowed; a prefix is printable ASCII without blanks and braces"
            )));
        }
        Ok(Keyspace { start: format!("{prefix}:{VERSION}:").into() })
    }

    /// The key of a subject; `end` is what [`end`] made of namespace and limit.
    pub(crate) fn key(&self, subject: KeyRef<'_>, end: &str) -> Vec<u8> {
        let room = self.start.len() + subject.bytes().len() + end.len() + 8;
        let mut out = Vec::with_capacity(room);
        out.extend_from_slice(self.start.as_bytes());
        out.push(b'{');
        let tagged = match subject.form() {
            Form::Tagged => two(subject),
            _ => None,
        };
        let (tag, rest) = tagged.map_or((subject, None), |(tag, key)| (tag, Some(key)));
        let before = out.len();
        write_part(tag, &mut out, false);
        if out.len() == before {
            out.push(b'%');
        }
        out.push(b'}');
        if let Some(key) = rest {
            out.push(b'/');
            write_part(key, &mut out, true);
        }
        out.extend_from_slice(end.as_bytes());
        out
    }

    /// A pattern for `SCAN` that matches at least the keys with this end.
    pub(crate) fn pattern(&self, end: &str) -> Vec<u8> {
        let mut out = Vec::new();
        glob(self.start.as_bytes(), &mut out);
        out.extend_from_slice(b"{*");
        glob(end.as_bytes(), &mut out);
        out
    }

    /// What follows the subject in a key of ours: `:namespace:identity`.
    pub(crate) fn end_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let key = key.strip_prefix(self.start.as_bytes())?.strip_prefix(b"{")?;
        let brace = key.iter().position(|byte| *byte == b'}')?;
        let rest = &key[brace + 1..];
        let colon = rest.iter().position(|byte| *byte == b':')?;
        Some(&rest[colon..])
    }
}

/// `:namespace:`, the beginning of the end of all its keys.
pub(crate) fn namespace_end(namespace: &str) -> String {
    let mut out = vec![b':'];
    escape(namespace.as_bytes(), &mut out, true);
    out.push(b':');
    String::from_utf8_lossy(&out).into_owned()
}

/// What stands behind the subject: `:namespace:identity`.
pub(crate) fn end(namespace: &str, identity: &str) -> String {
    let mut out = namespace_end(namespace).into_bytes();
    escape(identity.as_bytes(), &mut out, false);
    String::from_utf8_lossy(&out).into_owned()
}

/// The slot of a key of ours: the CRC16 (XMODEM) of its hash tag.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close]).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    let bit = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(*byte) << 8, bit))
}

fn two(key: KeyRef<'_>) -> Option<(KeyRef<'_>, KeyRef<'_>)> {
    let mut inner = key.inner();
    Some((inner.next()?, inner.next()?))
}

fn write_part(part: KeyRef<'_>, out: &mut Vec<u8>, colon: bool) {
    let between = match part.form() {
        Form::Plain => return escape(part.bytes(), out, colon),
        Form::Digest => {
            out.extend_from_slice(b"%#");
            return part.bytes().iter().for_each(|byte| hex(*byte, out));
        }
        Form::Tagged => b'|',
        _ => b',',
    };
    // Only `None` has no parts.
    if part.inner().next().is_none() {
        out.push(b'%');
    }
    out.push(b'(');
    for (index, inner) in part.inner().enumerate() {
        if index > 0 {
            out.push(between);
        }
        write_part(inner, out, colon);
    }
    out.push(b')');
}

fn escape(bytes: &[u8], out: &mut Vec<u8>, colon: bool) {
    for byte in bytes {
        let plain = byte.is_ascii_graphic() && !b"%{}(),|".contains(byte);
        if plain && !(colon && *byte == b':') {
            out.push(*byte);
        } else {
            out.push(b'%');
            hex(*byte, out);
        }
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Text that stands for itself in a pattern of Redis.
fn glob(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if b"*?[]\\^".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Key, OwnedKey, Tagged};

    use super::*;

    fn key(subject: impl Key) -> String {
        let space = Keyspace::new("tollgate").unwrap_or_else(|error| panic!("{error}"));
        let key = subject.with_key(|subject| space.key(subject, &end("acme", "gcra:7:n:login")));
        String::from_utf8(key).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn keys_are_readable() {
        assert_eq!(key("user:42"), "tollgate:1:{user:42}:acme:gcra:7:n:login");
        assert_eq!(key(("a", 7, "GET /x")), "tollgate:1:{(a,7,GET%20/x)}:acme:gcra:7:n:login");
        assert_eq!(key(Tagged("acme", "al:ice")), "tollgate:1:{acme}/al%3Aice:acme:gcra:7:n:login");
        assert_eq!(key(""), "tollgate:1:{%}:acme:gcra:7:n:login");
        assert_eq!(key("ü"), "tollgate:1:{%C3%BC}:acme:gcra:7:n:login");
    }

    /// What stands for a long key, as a short key.
    fn long_as_text() -> String {
        let key = key(OwnedKey::new(&"x".repeat(300)));
        key.split(['{', '}']).nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn long_keys_are_digests_and_those_of_one_tag_share_a_slot() {
        assert_eq!(long_as_text().len(), 2 + 64);
        assert!(long_as_text().starts_with("%#"));
        let tag = "t".repeat(300);
        let slot_of = |subject: &str| {
            let owned = OwnedKey::new(&Tagged(&tag, subject));
            slot(key(owned).as_bytes())
        };
        assert_eq!(slot_of("a"), slot_of(&"b".repeat(300)));
    }

    #[test]
    fn different_keys_never_share_text() {
        let keys = [
            key(""),
            key("%"),
            key(("",)),
            key(None::<&str>),
            key((None::<&str>,)),
            key(Tagged("", "")),
            key(Tagged(None::<&str>, "")),
            key("a,b"),
            key("(a,b)"),
            key(("a", "b")),
            key(("a,b", "")),
            key((("a", "b"), "")),
            key(Tagged("a", "b")),
            key("a}/b"),
            key("{a}/b"),
            key((Tagged("a", "b"), "")),
            key(("a|b", "")),
            key(Tagged("a", ("b", "c"))),
            key(Tagged("a", "(b,c)")),
            key(Tagged(("a", "b"), "c")),
            key(OwnedKey::new(&"x".repeat(300))),
            key(OwnedKey::new(&("x".repeat(300), "y"))),
            key(OwnedKey::new(&"x".repeat(300)).as_key_ref().bytes().to_vec()),
            key(OwnedKey::new(&Tagged("x".repeat(300), "y"))),
            key(OwnedKey::new(&Tagged("y", "x".repeat(300)))),
            key(long_as_text()),
        ];
        let different: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len(), "{keys:?}");
        assert_ne!(end("a:b", "c"), end("a", "b:c"));
    }

    #[test]
    fn slots_are_those_of_redis() {
        // `CLUSTER KEYSLOT` of a server.
        assert_eq!(slot(b"123456789"), 12739);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn limits_of_one_subject_and_keys_of_one_tag_share_a_slot() {
        let space = Keyspace::new("x").unwrap_or_else(|error| panic!("{error}"));
        let slot_of = |key: &dyn Fn(&str) -> Vec<u8>, id: &str| slot(&key(id));
        for subject in ["", "a", "}{", "%"] {
            let key = |id: &str| subject.with_key(|s| space.key(s, &end("", id)));
            assert_eq!(slot_of(&key, "one"), slot_of(&key, "two"), "{subject}");
        }
        let tagged = |key: &str| Tagged("acme", key).with_key(|s| space.key(s, ":x"));
        assert_eq!(slot(&tagged("alice")), slot(&tagged("bob")));
    }

    #[test]
    fn the_end_of_a_key_is_parsed_back() {
        let space = Keyspace::new("x").unwrap_or_else(|error| panic!("{error}"));
        for subject in ["a", "", "a:b", "}:x:"] {
            let key = Tagged(subject, "k:k").with_key(|s| space.key(s, &end("n:s", "id")));
            assert_eq!(space.end_of(&key), Some(&b":n%3As:id"[..]));
        }
        assert_eq!(space.end_of(b"other:1:{a}:n:id"), None);
    }

    #[test]
    fn a_prefix_with_braces_or_blanks_is_refused() {
        assert!(Keyspace::new("a{b").is_err());
        assert!(Keyspace::new("a b").is_err());
        assert!(Keyspace::new("").is_ok());
    }
}
