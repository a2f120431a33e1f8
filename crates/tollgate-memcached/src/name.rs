//! Names of items in Memcached: `prefix:1:namespace|limit|subject`.
//!
//! - `1` is the version of this format.
//! - A tuple is `(part,part)`, a tagged key `(tag~key)`.
//! - `None` is `#()`, which differs from `()`, the tuple of one empty part.
//! - The digest of a key that is longer than [`KeyRef::LONGEST`] is `#` and its 32 bytes in
//!   hexadecimal.
//! - Bytes that are not printable ASCII, blanks and `% # ( ) , ~` are written `%XX`; in a namespace
//!   and a limit `|` is too.
//! - Memcached accepts 250 bytes. A part that is too long for that is replaced by `#` and the first
//!   128 bits of its SHA-256. Two of `n` such keys collide with a probability of `n^2 / 2^129`,
//!   which for a billion of them is 10^-21.
//!
//! So different parts are never joined to equal names, and all names of a limit or a namespace have
//! a common prefix that no other name has.

use sha2::{Digest, Sha256};
use tollgate::key::Form;
use tollgate::{Error, KeyRef};

const VERSION: &str = "1";

/// The longest name that Memcached accepts.
pub(crate) const LONGEST: usize = 250;

/// Up to this size a part is stored unchanged, in bytes. The subject gets the rest, which is always
/// enough for a hash.
const LONGEST_PREFIX: usize = 32;
const LONGEST_NAMESPACE: usize = 48;
const LONGEST_LIMIT: usize = 80;

/// Makes names with a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    start: Box<str>,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Result<Names, Error> {
        if let Some(bad) = prefix.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(Error::request(format!(
                "prefix {prefix:?}: {bad:?} is not allowed; a prefix is printable ASCII without blanks"
            )));
        }
        if prefix.len() > LONGEST_PREFIX {
            return Err(Error::request(format!(
                "prefix {prefix:?}: {} bytes; at most {LONGEST_PREFIX} are allowed",
                prefix.len()
            )));
        }
        Ok(Names { start: format!("{prefix}:{VERSION}:").into() })
    }

    /// The prefix of the names of a limit, or of a namespace.
    pub(crate) fn place(&self, namespace: &str, identity: Option<&str>) -> Vec<u8> {
        let mut place = self.start.as_bytes().to_vec();
        part(namespace, LONGEST_NAMESPACE, &mut place);
        if let Some(identity) = identity {
            part(identity, LONGEST_LIMIT, &mut place);
        }
        place
    }

    /// The name of a key in a place.
    pub(crate) fn name(&self, place: &[u8], key: KeyRef<'_>) -> Vec<u8> {
        let mut name = Vec::with_capacity(place.len() + key.bytes().len() + 8);
        name.extend_from_slice(place);
        subject(key, &mut name);
        if name.len() > LONGEST {
            name.truncate(place.len());
            let mut hash = Sha256::new_with_prefix([key.form() as u8]);
            hash.update(key.bytes());
            write_hash(hash, &mut name);
        }
        name
    }
}

/// Appends the text, escaped, or its hash if it is too long; then its end mark.
fn part(text: &str, longest: usize, out: &mut Vec<u8>) {
    let start = out.len();
    escape(text.as_bytes(), b"|", out);
    if out.len() - start > longest {
        out.truncate(start);
        write_hash(Sha256::new_with_prefix(text), out);
    }
    out.push(b'|');
}

fn subject(key: KeyRef<'_>, out: &mut Vec<u8>) {
    let between = match key.form() {
        Form::Plain => return escape(key.bytes(), b"", out),
        Form::Digest => {
            out.push(b'#');
            return key.bytes().iter().for_each(|byte| hex(*byte, out));
        }
        Form::Tagged => b'~',
        _ => b',',
    };
    // Only `None` has no parts.
    if key.inner().next().is_none() {
        out.push(b'#');
    }
    out.push(b'(');
    for (index, inner) in key.inner().enumerate() {
        if index > 0 {
            out.push(between);
        }
        subject(inner, out);
    }
    out.push(b')');
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn escape(bytes: &[u8], also: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        let escaped = b"%#(),~".contains(byte) || also.contains(byte);
        if byte.is_ascii_graphic() && !escaped {
            out.push(*byte);
        } else {
            out.push(b'%');
            hex(*byte, out);
        }
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

fn write_hash(hash: Sha256, out: &mut Vec<u8>) {
    out.push(b'#');
    for byte in &hash.finalize()[..16] {
        hex(*byte, out);
    }
}

#[cfg(test)]
mod tests {
    use tollgate::shared::percent_decoded;
    use tollgate::{Key, OwnedKey, Tagged};

    use super::*;

    fn name_in(namespace: &str, identity: &str, key: impl Key) -> String {
        let names = Names::new("tollgate").unwrap();
        let place = names.place(namespace, Some(identity));
        let name = key.with_key(|key| names.name(&place, key));
        assert!(name.len() <= LONGEST && name.iter().all(u8::is_ascii_graphic), "{name:?}");
        String::from_utf8(name).unwrap()
    }

    #[test]
    fn names_are_readable() {
        let name = |key: &dyn Fn(&str, &str) -> String| key("acme", "gcra:7:n:login");
        assert_eq!(
            name(&|n, l| name_in(n, l, "user:42")),
            "tollgate:1:acme|gcra:7:n:login|user:42"
        );
        let tuple = name(&|n, l| name_in(n, l, ("a", 7, "GET /x")));
        assert_eq!(tuple, "tollgate:1:acme|gcra:7:n:login|(a,7,GET%20/x)");
        let tagged = name(&|n, l| name_in(n, l, Tagged("acme", "ü")));
        assert_eq!(tagged, "tollgate:1:acme|gcra:7:n:login|(acme~%C3%BC)");
        assert_eq!(name_in("", "x", ""), "tollgate:1:|x|");
    }

    #[test]
    fn different_keys_never_share_a_name() {
        let long = |last: char| format!("{}{last}", "x".repeat(300));
        let hashed = name_in("n", "l", long('a'));
        let hash = hashed.rsplit('|').next().unwrap().to_owned();
        let names = [
            name_in("n", "l", ""),
            name_in("n", "l", "a,b"),
            name_in("n", "l", "(a,b)"),
            name_in("n", "l", ("a", "b")),
            name_in("n", "l", ("a,b", "")),
            name_in("n", "l", (("a", "b"), "")),
            name_in("n", "l", Tagged("a", "b")),
            name_in("n", "l", "(a~b)"),
            name_in("n|l", "m", "a"),
            name_in("n", "l|m", "a"),
            name_in("n", "l", "m|a"),
            name_in("n", "l", "%41"),
            name_in("n", "l", "A"),
            name_in("n", "l", hash),
            hashed,
            name_in("n", "l", long('b')),
            name_in("n", "l", (long('a'), "")),
            name_in(&long('a'), "l", "a"),
            name_in(&long('b'), "l", "a"),
            name_in("n", &long('a'), "a"),
            name_in("n", "l", OwnedKey::new(&long('a'))),
            name_in("n", "l", OwnedKey::new(&long('b'))),
            name_in("n", "l", OwnedKey::new(&(long('a'), ""))),
            name_in("n", "l", OwnedKey::new(&Tagged(long('a'), ""))),
            name_in("n", "l", OwnedKey::new(&Tagged(long('a'), long('a')))),
            name_in("n", "l", OwnedKey::new(&long('a')).as_key_ref().to_string()),
            name_in(&long('a'), &long('a'), long('a')),
            name_in(&long('a'), &long('a'), long('b')),
        ];
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }

    #[test]
    fn names_of_a_place_begin_with_it_and_no_others_do() {
        let names = Names::new("p").unwrap();
        let (shop, shopping) = (names.place("shop", None), names.place("shopping", None));
        assert!(names.place("shop", Some("l")).starts_with(&shop));
        assert!(!shopping.starts_with(&shop));
        assert!(!names.place("shop", Some("ll")).starts_with(&names.place("shop", Some("l"))));
    }

    #[test]
    fn names_listed_by_a_server_are_decoded() {
        let listed = b"%22a%25b%3A%23%2F~%5E%60%7B%7D%5B%5D%7C%5C";
        assert_eq!(percent_decoded(listed).unwrap(), b"\"a%b:#/~^`{}[]|\\");
        for wrong in [&b"%"[..], b"%2", b"%zz", b"a%+1"] {
            assert_eq!(percent_decoded(wrong).filter(|bytes| bytes != b"a\x01"), None);
        }
    }

    #[test]
    fn a_prefix_that_memcached_would_not_take_is_refused() {
        assert!(Names::new("a b").is_err());
        assert!(Names::new(&"x".repeat(33)).is_err());
        assert!(Names::new("").is_ok());
    }
}
