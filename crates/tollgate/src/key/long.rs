//! Long keys. Of a key that is longer than [`KeyRef::LONGEST`], stores keep the digest, so that a
//! bound on the number of keys also bounds their bytes.
//!
//! The digest is SHA-256 over the form and the bytes of the key. It is the same in every process,
//! so that all clients of a shared store agree. SHA-256 has no known collisions, so nobody can
//! construct two keys that share a counter. A digest has a form of its own ([`Form::Digest`]) and
//! equals no other key. The tag and the key of a tagged key are shortened separately, so that all
//! keys with the same tag are still kept together.

use sha2::{Digest as _, Sha256};

use super::buffer::Buffer;
use super::frame::push_text;
use super::{Form, Key, KeyRef, OwnedKey, Source};

impl<'a> KeyRef<'a> {
    /// The length in bytes of the longest key that stores keep as it is. Of a longer key they keep
    /// the SHA-256 (32 bytes). Of a longer [tagged](crate::Tagged) key each of the two parts is
    /// replaced by its SHA-256 if it is longer than this.
    ///
    /// The probability that two of `n` long keys share a counter is below `n² / 2^257`: less than
    /// 10^-59 for a billion keys. No two such keys are known.
    ///
    /// ```
    /// use tollgate::{Key, KeyRef, OwnedKey, key::Form};
    ///
    /// let longest = "x".repeat(KeyRef::LONGEST);
    /// assert_eq!(OwnedKey::new(&longest).as_key_ref().form(), Form::Plain);
    ///
    /// let longer = OwnedKey::new(&"x".repeat(KeyRef::LONGEST + 1));
    /// let longer = longer.as_key_ref();
    /// assert_eq!((longer.form(), longer.bytes().len()), (Form::Digest, 32));
    /// ```
    pub const LONGEST: usize = 256;

    /// Returns whether the key is longer than [`KeyRef::LONGEST`].
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        match self.source {
            Source::Bytes(bytes) => bytes.len() > KeyRef::LONGEST,
            Source::Value(..) => false,
            // The external form of a part is at most three times as long as its compact form.
            Source::Frame(frame, _) => {
                frame.bytes().len() > KeyRef::LONGEST / 3 && self.bytes().len() > KeyRef::LONGEST
            }
        }
    }

    /// Returns the key as stores keep it. `room` provides the memory for a digest.
    #[inline(always)]
    pub(crate) fn shorten<'s>(self, room: &'s mut Option<OwnedKey>) -> KeyRef<'s>
    where
        'a: 's,
    {
        if self.is_long() { room.insert(digest(self)).as_key_ref() } else { self }
    }
}

/// Shortens a key that is longer than [`KeyRef::LONGEST`], as stores keep it.
#[cold]
#[inline(never)]
pub(super) fn digest(key: KeyRef<'_>) -> OwnedKey {
    let parts = [key.inner().next(), key.inner().nth(1)];
    if let (Form::Tagged, [Some(tag), Some(key)]) = (key.form, parts) {
        let mut parts = Buffer::new();
        push_text(&mut parts, OwnedKey::new(&tag).as_key_ref());
        push_text(&mut parts, OwnedKey::new(&key).as_key_ref());
        return OwnedKey { form: Form::Tagged, bytes: parts.bytes().into() };
    }
    let hash = Sha256::new_with_prefix([key.form as u8]).chain_update(key.bytes());
    OwnedKey { form: Form::Digest, bytes: Box::from(&hash.finalize()[..]) }
}

/// A key as stores keep it, for callers that use it several times: a long key is hashed only once.
pub(crate) enum ShortKey<'k, K: ?Sized> {
    AsItIs(&'k K),
    Digest(OwnedKey),
}

impl<'k, K: Key + ?Sized> ShortKey<'k, K> {
    pub(crate) fn of(key: &'k K) -> Self {
        let digest = key.with_key(|key| key.is_long().then(|| digest(key)));
        digest.map_or(ShortKey::AsItIs(key), ShortKey::Digest)
    }
}

impl<K: Key + ?Sized> Key for ShortKey<'_, K> {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self {
            ShortKey::AsItIs(key) => key.with_key(f),
            ShortKey::Digest(key) => key.with_key(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Tagged;

    fn short(key: impl Key) -> OwnedKey {
        OwnedKey::new(&key)
    }

    #[test]
    fn keys_of_at_most_256_bytes_are_kept_as_they_are() {
        let text = "k".repeat(KeyRef::LONGEST);
        assert_eq!(short(&text).as_key_ref(), KeyRef::plain(text.as_bytes()));
        let pair = ("a", "k".repeat(KeyRef::LONGEST - 6));
        pair.with_key(|key| {
            assert_eq!(key.bytes().len(), KeyRef::LONGEST);
            assert_eq!(short(key).as_key_ref(), key);
        });
    }

    /// The digests are constants, because clients of one shared store may have been built years
    /// apart and must agree.
    #[test]
    fn a_digest_is_the_sha_256_of_form_and_bytes() {
        // printf '\0%s' "$(printf 'k%.0s' $(seq 257))" | sha256sum
        let plain = "sha256:647cb7fb44f564189c08dfec64ac45cbd90c0db5a70546b29526d6e95477f5ee";
        assert_eq!(short("k".repeat(257)).as_key_ref().to_string(), plain);
        // printf '\1\0\1a\0\377\1%s' "$(printf 'k%.0s' $(seq 255))" | sha256sum
        let tuple = "sha256:b5b478fcf8a69b5f3efb09ef430070f48cf919e5df6ccdaf9edc27fe470fe3f5";
        assert_eq!(short(("a", "k".repeat(255))).as_key_ref().to_string(), tuple);
    }

    #[test]
    fn different_long_keys_have_different_digests_and_equal_no_other_key() {
        let long = |last: char| format!("{}{last}", "k".repeat(300));
        let pair = |last| (long(last), "x");
        let bytes_of_pair = pair('a').with_key(|key| key.bytes().to_vec());
        let digest = short(long('a')).as_key_ref().bytes().to_vec();
        let keys = [
            short(long('a')),
            short(long('b')),
            short(long('a') + "\0"),
            short(pair('a')),
            short(pair('b')),
            short(("x", long('a'))),
            short(bytes_of_pair),
            short(Tagged(long('a'), "x")),
            short(Tagged("x", long('a'))),
            short(Tagged(long('a'), long('a'))),
            short((Tagged(long('a'), "x"), "y")),
            short(&digest),
            short((&digest, "x")),
            short(Tagged(digest, "x".to_owned())),
            short(short(long('a')).as_key_ref().to_string()),
        ];
        let different: HashSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        let longest = keys.iter().map(|key| key.as_key_ref().bytes().len()).max();
        assert!(longest <= Some(KeyRef::LONGEST), "{longest:?}");
    }

    #[test]
    fn a_shortened_key_is_not_shortened_again() {
        let long = "k".repeat(1_000);
        for key in [short(&long), short((&long, 7)), short(Tagged(&long, &long))] {
            assert_eq!(short(&key), key);
        }
        let parts = "k".repeat(KeyRef::LONGEST);
        let longest = short(Tagged(&parts, &parts));
        assert_eq!(longest.as_key_ref().bytes().len(), 2 * (KeyRef::LONGEST + 3));
        assert_eq!(short(&longest), longest);
    }

    #[test]
    fn keys_with_the_same_tag_still_have_the_same_tag_when_shortened() {
        let (tag, long) = ("t".repeat(400), "k".repeat(400));
        let tag_of = |key: OwnedKey| key.as_key_ref().inner().next().map(|tag| OwnedKey::new(&tag));
        let first = tag_of(short(Tagged(&tag, "a")));
        assert!(first.is_some());
        assert_eq!(first, tag_of(short(Tagged(&tag, &long))));
        assert_eq!(first, Some(short(&tag)));
        let kept = tag_of(short(Tagged("acme", &long)));
        assert_eq!(kept, Some(short("acme")), "a short tag is not shortened");
    }
}
