//! Long keys. Stores keep the digest of a key that is longer than [`KeyRef::LONGEST`], so that a
//! bound on the number of keys is a bound on their bytes.
//!
//! The digest is SHA-256 over the form and the bytes of the key: the same in every process, so that
//! all clients of a shared store agree, and without known collisions, so that nobody can make two
//! keys that share a counter. A digest has a form of its own ([`Form::Digest`]) and equals no other
//! key. Of a tagged key the tag and the key behind it are shortened on their own, so that keys of
//! one tag still live together.

use sha2::{Digest as _, Sha256};

use super::buffer::Buffer;
use super::frame::push_text;
use super::{Form, Key, KeyRef, OwnedKey, Source};

impl<'a> KeyRef<'a> {
    /// The longest key that stores keep as it is, in bytes. Of a longer one they keep the SHA-256
    /// (32 bytes); of a longer [tagged](crate::Tagged) key that of each of its two parts that is
    /// longer than this.
    ///
    /// Two of `n` long keys share a counter with a probability below `n² / 2^257`: less than 10^-59
    /// for a billion of them. No two such keys are known to anybody.
    ///
    /// ```
    /// use tollgate::{Key, KeyRef, OwnedKey, key::Form};
    ///
    /// let longest = "x".repeat(KeyRef::LONGEST);
    /// assert_eq!(OwnedKey::new(&longest).as_ref().form(), Form::Plain);
    ///
    /// let longer = OwnedKey::new(&"x".repeat(KeyRef::LONGEST + 1));
    /// assert_eq!((longer.as_ref().form(), longer.as_ref().bytes().len()), (Form::Digest, 32));
    /// ```
    pub const LONGEST: usize = 256;

    /// Whether stores may keep it in another form.
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        match self.source {
            Source::Bytes(bytes) => bytes.len() > KeyRef::LONGEST,
            Source::Value(..) => false,
            // The text of a part is at most three times as long as its compact form.
            Source::Frame(frame, _) => {
                frame.bytes().len() > KeyRef::LONGEST / 3 && self.bytes().len() > KeyRef::LONGEST
            }
        }
    }

    /// The key as stores keep it. `room` holds the digest if there is one.
    #[inline(always)]
    pub(crate) fn shorten<'s>(self, room: &'s mut Option<OwnedKey>) -> KeyRef<'s>
    where
        'a: 's,
    {
        if self.is_long() { room.insert(digest(self)).as_key_ref() } else { self }
    }
}

/// A key longer than [`KeyRef::LONGEST`] as stores keep it.
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

/// A key as stores keep it, for callers that need it several times.
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
    fn keys_up_to_the_bound_stay_as_they_are() {
        let text = "k".repeat(KeyRef::LONGEST);
        assert_eq!(short(&text).as_key_ref(), KeyRef::plain(text.as_bytes()));
        let pair = ("a", "k".repeat(KeyRef::LONGEST - 6));
        pair.with_key(|key| {
            assert_eq!(key.bytes().len(), KeyRef::LONGEST);
            assert_eq!(short(key).as_key_ref(), key);
        });
    }

    /// Written out, because clients of one shared store may have been built years apart.
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
    fn different_long_keys_have_different_digests_and_no_other_key_has_one() {
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
    fn a_key_that_was_shortened_stays_as_it_is() {
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
    fn keys_of_one_tag_keep_one_tag() {
        let (tag, long) = ("t".repeat(400), "k".repeat(400));
        let tag_of = |key: OwnedKey| key.as_key_ref().inner().next().map(|tag| OwnedKey::new(&tag));
        let first = tag_of(short(Tagged(&tag, "a")));
        assert!(first.is_some());
        assert_eq!(first, tag_of(short(Tagged(&tag, &long))));
        assert_eq!(first, Some(short(&tag)));
        let kept = tag_of(short(Tagged("acme", &long)));
        assert_eq!(kept, Some(short("acme")), "a short tag stays as it is");
    }
}
