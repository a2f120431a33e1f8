//! The values of the column `key`.

use sha2::{Digest, Sha256};
use tollgate::shared::Place;
use tollgate::{KeyRef, Limit};

/// Parts of a key up to this length are stored unchanged. Three of them fit an index, which takes
/// up to 2,700 bytes.
const LONGEST: usize = 800;

/// The first byte of a part that was shortened. Other parts begin with a length or a form, which
/// are smaller.
const SHORTENED: u8 = 0xff;

/// The keys of one limit in one namespace: [`Place`], with parts that are too long for an index
/// replaced by their SHA-256. The probability that two of `n` such parts are confused is below
/// n² / 2^257.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    place: Place,
    prefix: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(namespace: &str, limit: &Limit) -> Keys {
        let place = Place::new(namespace, limit);
        let mut prefix = namespace_prefix(namespace);
        shorten(&place.prefix()[Place::of_namespace(namespace).len()..], &mut prefix);
        Keys { place, prefix }
    }

    /// The common prefix of all keys of the limit.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub(crate) fn key(&self, key: KeyRef<'_>) -> Vec<u8> {
        let mut out = self.prefix.clone();
        shorten(&self.place.key(key)[self.place.prefix().len()..], &mut out);
        out
    }
}

/// The common prefix of all keys of a namespace.
pub(crate) fn namespace_prefix(namespace: &str) -> Vec<u8> {
    let mut out = Vec::new();
    shorten(&Place::of_namespace(namespace), &mut out);
    out
}

fn shorten(part: &[u8], out: &mut Vec<u8>) {
    if part.len() <= LONGEST {
        out.extend_from_slice(part);
        return;
    }
    out.push(SHORTENED);
    out.extend_from_slice(&Sha256::digest(part));
    // No part consists of 0xff alone, so there is a smallest key after all keys with this prefix.
    out.push(0);
}

/// The smallest key after all keys with this prefix, which must not be all 0xff.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if last < 0xff {
            after.push(last + 1);
            break;
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(name: &str) -> Limit {
        Limit::per_second(1).name(name).build().unwrap()
    }

    #[test]
    fn keys_of_any_length_fit_an_index_and_differ() {
        let texts = ["", "a", &"b".repeat(795), &"b".repeat(796), &"c".repeat(20_000)];
        let mut seen = std::collections::HashSet::new();
        for namespace in texts {
            for name in ["one", "two"] {
                let keys = Keys::new(namespace, &limit(name));
                for key in texts {
                    let key = keys.key(KeyRef::plain(key.as_bytes()));
                    assert!(key.len() < 2_600 && key.starts_with(keys.prefix()), "{}", key.len());
                    assert!(key.starts_with(&namespace_prefix(namespace)));
                    assert!(key < after(keys.prefix()) && key >= keys.prefix().to_vec());
                    assert!(seen.insert(key));
                }
            }
        }
    }

    #[test]
    fn the_key_after_a_prefix_is_behind_all_keys_that_begin_with_it() {
        assert_eq!(after(&[1, 2]), [1, 3]);
        assert_eq!(after(&[1, 0xff, 0xff]), [2]);
    }
}
