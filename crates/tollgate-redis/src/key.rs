//! Keys as they stand in Redis: `prefix:version:{subject}:namespace:limit`.
//!
//! - The version says how the limit is written. `1`: a limit with a name, as its identity. `2`: a
//!   limit without a name, as the beginning of the SHA-256 of its identity, because the whole
//!   identity takes more memory than the state. Version 1 was also that of limits without a name,
//!   so [`Keyspace::is_in`] knows such keys; they expire.
//! - The subject is the key of the caller. It is the hash tag, so all limits of one subject share a
//!   slot. A key with a tag is `{tag}/key`: all keys of one tag share a slot.
//! - A tuple is `(part,part)`, a tagged key inside a tuple `(tag|key)`. An empty subject is `%`,
//!   because Redis ignores an empty hash tag.
//! - `None` is `%()`: not the tuple of one empty part, which is `()`.
//! - The digest of a key that is longer than [`KeyRef::LONGEST`] is `%#` and its bytes in
//!   hexadecimal.
//! - Bytes that are not printable ASCII, blanks and `% { } ( ) , |` are written `%XX`; in a
//!   namespace and after a tag also `:`.
//!
//! Nothing runs together: up to the first `}` is the subject, then comes what belongs to its tag up
//! to the next `:`, the namespace up to the next, and the rest is the limit.
//!
//! Two limits could share a counter only within one namespace, on one subject. The digest has 72
//! bits: two of `n` limits without a name share it with a probability below `n² / 2^73`, which for
//! a million of them is 10^-10. It takes 2^72 attempts to invent a limit that shares the counters
//! of a given one.

use sha2::{Digest, Sha256};
use tollgate::key::{Form, escape, slot_of};
use tollgate::{Error, KeyRef, Limit, base64};

const IDENTITY: &str = "1";
const DIGEST: &str = "2";

/// Characters of the digest, of six bits each.
const DIGEST_CHARS: usize = 12;

/// All keys of a store.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    prefix: Box<str>,
}

/// The keys of one limit in one namespace: the parts before and after the subject.
#[derive(Clone, Debug)]
pub(crate) struct LimitKeys {
    /// `prefix:version:{`
    start: Box<str>,
    /// `:namespace:limit`
    end: Box<str>,
}

impl Keyspace {
    pub(crate) fn new(prefix: &str) -> Result<Keyspace, Error> {
        if let Some(bad) = prefix.chars().find(|c| matches!(c, '{' | '}') || !c.is_ascii_graphic())
        {
            return Err(Error::request(format!(
                "prefix {prefix:?}: {bad:?} is not allowed; a prefix is printable ASCII without blanks and braces"
            )));
        }
        Ok(Keyspace { prefix: prefix.into() })
    }

    /// The channel of pub/sub on which processes announce changed keys.
    pub(crate) fn channel(&self) -> String {
        format!("{}:changed", self.prefix)
    }

    pub(crate) fn of_limit(&self, namespace: &str, limit: &Limit) -> LimitKeys {
        let mut end = namespace_end(namespace).into_bytes();
        let version = if limit.name().is_some() {
            escape(limit.identity().as_bytes(), &mut end, false);
            IDENTITY
        } else {
            write_digest(&limit.identity(), &mut end);
            DIGEST
        };
        LimitKeys { start: self.start(version), end: String::from_utf8_lossy(&end).into() }
    }

    fn start(&self, version: &str) -> Box<str> {
        format!("{}:{version}:{{", self.prefix).into()
    }

    /// A pattern for `SCAN` that matches at least the keys of all limits of a namespace.
    pub(crate) fn namespace_pattern(&self, namespace: &str) -> Vec<u8> {
        let mut out = Vec::new();
        glob(self.prefix.as_bytes(), &mut out);
        out.extend_from_slice(format!(":[{IDENTITY}{DIGEST}]:{{*").as_bytes());
        glob(namespace_end(namespace).as_bytes(), &mut out);
        out.push(b'*');
        out
    }

    /// Whether a key of any version is of a limit in that namespace.
    pub(crate) fn is_in(&self, namespace: &str, key: &[u8]) -> bool {
        let end = namespace_end(namespace);
        [IDENTITY, DIGEST].into_iter().any(|version| {
            let found = end_of(&self.start(version), key);
            found.is_some_and(|found| found.starts_with(end.as_bytes()))
        })
    }
}

impl LimitKeys {
    /// The key of a subject.
    pub(crate) fn key(&self, subject: KeyRef<'_>) -> Vec<u8> {
        let room = self.start.len() + subject.bytes().len() + self.end.len() + 8;
        let mut out = Vec::with_capacity(room);
        out.extend_from_slice(self.start.as_bytes());
        subject.write_hash_tag(&mut out);
        out.push(b'}');
        if subject.form() == Form::Tagged
            && let Some(key) = subject.inner().nth(1)
        {
            out.push(b'/');
            key.write_escaped(&mut out, true);
        }
        out.extend_from_slice(self.end.as_bytes());
        out
    }

    /// A pattern for `SCAN` that matches at least these keys.
    pub(crate) fn pattern(&self) -> Vec<u8> {
        let mut out = Vec::new();
        glob(self.start.as_bytes(), &mut out);
        out.push(b'*');
        glob(self.end.as_bytes(), &mut out);
        out
    }

    pub(crate) fn includes(&self, key: &[u8]) -> bool {
        end_of(&self.start, key) == Some(self.end.as_bytes())
    }
}

/// Returns the part after the subject, `:namespace:limit`, of a key that begins with `start`.
fn end_of<'k>(start: &str, key: &'k [u8]) -> Option<&'k [u8]> {
    let key = key.strip_prefix(start.as_bytes())?;
    let brace = key.iter().position(|byte| *byte == b'}')?;
    let rest = &key[brace + 1..];
    let colon = rest.iter().position(|byte| *byte == b':')?;
    Some(&rest[colon..])
}

/// `:namespace:`, which begins the end of all its keys.
fn namespace_end(namespace: &str) -> String {
    let mut out = vec![b':'];
    escape(namespace.as_bytes(), &mut out, true);
    out.push(b':');
    String::from_utf8_lossy(&out).into_owned()
}

/// The first bits of the SHA-256, as base64url.
fn write_digest(identity: &str, out: &mut Vec<u8>) {
    let hash = Sha256::digest(identity);
    out.extend(base64::encode(base64::URL, &hash).take(DIGEST_CHARS));
}

/// The slot of a key of ours: the CRC16 (XMODEM) of its hash tag.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close]).filter(|tag| !tag.is_empty())
    });
    slot_of(tag.unwrap_or(key))
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

    fn keyspace(prefix: &str) -> Keyspace {
        Keyspace::new(prefix).unwrap_or_else(|error| panic!("{error}"))
    }

    fn limit(text: &str) -> Limit {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn keys_of(namespace: &str, text: &str) -> LimitKeys {
        keyspace("tollgate").of_limit(namespace, &limit(text))
    }

    fn key_of(keys: &LimitKeys, subject: impl Key) -> String {
        let key = subject.with_key(|subject| keys.key(subject));
        String::from_utf8(key).unwrap_or_else(|error| panic!("{error}"))
    }

    fn key(subject: impl Key) -> String {
        key_of(&keys_of("acme", "9/second name=login"), subject)
    }

    #[test]
    fn keys_are_readable() {
        assert_eq!(key("user:42"), "tollgate:1:{user:42}:acme:gcra:1000000:n:login");
        assert_eq!(
            key(("a", 7, "GET /x")),
            "tollgate:1:{(a,7,GET%20/x)}:acme:gcra:1000000:n:login"
        );
        let tagged = "tollgate:1:{acme}/al%3Aice:acme:gcra:1000000:n:login";
        assert_eq!(key(Tagged("acme", "al:ice")), tagged);
        assert_eq!(key(""), "tollgate:1:{%}:acme:gcra:1000000:n:login");
        assert_eq!(key("ü"), "tollgate:1:{%C3%BC}:acme:gcra:1000000:n:login");
    }

    /// Written out, because processes that share a server may have been built years apart.
    #[test]
    fn a_limit_without_a_name_is_the_beginning_of_the_digest_of_its_identity() {
        // printf 'gcra:1000000:q:9:9:0' | sha256sum | head -c 18 | xxd -r -p | base64 | tr +/ -_
        let keys = keys_of("acme", "9/second");
        assert_eq!(key_of(&keys, "user:42"), "tollgate:2:{user:42}:acme:RGiFsEbxgIFv");
    }

    /// The short text that replaces a long key.
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
        assert_ne!(namespace_end("a:b"), namespace_end("a"));
    }

    #[test]
    fn slots_are_those_of_redis() {
        // `CLUSTER KEYSLOT` of a server.
        assert_eq!(slot(b"123456789"), 12739);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), slot_of(b"foo{}{bar}"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }

    #[test]
    fn limits_of_one_subject_and_keys_of_one_tag_share_a_slot() {
        let [one, two] = ["9/second", "9/second name=x"].map(|limit| keys_of("", limit));
        let slot_of = |keys, subject: &str| slot(key_of(keys, subject).as_bytes());
        for subject in ["", "a", "}{", "%"] {
            assert_eq!(slot_of(&one, subject), slot_of(&two, subject), "{subject}");
        }
        let tagged = |key| slot(key_of(&one, Tagged("acme", key)).as_bytes());
        assert_eq!(tagged("alice"), tagged("bob"));
    }

    #[test]
    fn a_key_is_of_its_limit_and_namespace_only() {
        let space = keyspace("x");
        for text in ["9/second", "9/second name=\":n:\""] {
            let [here, there, other] = [("n:s", text), ("n", text), ("n:s", "9/minute")]
                .map(|(namespace, text)| space.of_limit(namespace, &limit(text)));
            for subject in ["a", "", "a:b", "}:x:"] {
                let key = Tagged(subject, "k:k").with_key(|subject| here.key(subject));
                let of = [&here, &there, &other].map(|keys| keys.includes(&key));
                assert_eq!(of, [true, false, false]);
                let namespaces = ["n:s", "n", "n%3As", ""].map(|name| space.is_in(name, &key));
                assert_eq!(namespaces, [true, false, false, false]);
            }
        }
        // A key of a limit without a name, as version 1 wrote it.
        assert!(space.is_in("n", b"x:1:{a}:n:gcra:1000000:q:9:9:0"));
        for other in ["other:1:{a}:n:id", "x:3:{a}:n:id", "x:12:{a}:n:id", "x:1:{a:n:id"] {
            assert!(!space.is_in("n", other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_prefix_with_braces_or_blanks_is_refused() {
        assert!(Keyspace::new("a{b").is_err());
        assert!(Keyspace::new("a b").is_err());
        assert!(Keyspace::new("").is_ok());
    }
}
