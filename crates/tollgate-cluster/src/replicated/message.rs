//! The messages of replicas.
//!
//! A message is one byte of version and then [`Message`] in the format of
//! [postcard](https://postcard.jamesmunns.com/wire-format): integers are varints, bytes and lists
//! start with their length, an enum starts with the number of its variant. All counts are
//! cumulative, so a message may be lost, duplicated or late. A replica ignores messages that it
//! cannot read.

use serde::{Deserialize, Serialize};

use super::counts::Actor;

/// The version of the format.
const VERSION: u8 = 2;

/// The longest name of a node that is sent or kept, in bytes.
pub(crate) const LONGEST_NAME: usize = 128;

/// The largest message that is read.
const LARGEST: usize = 1 << 20;

/// Messages with counts are split at about this size.
pub(crate) const FULL: usize = 32 * 1024;

/// The number of parts into which keys are divided for comparison.
pub const PARTS: usize = 64;

/// One message.
///
/// ```
/// use tollgate_cluster::replicated::{Body, Message};
/// let message = Message { from: 7, body: Body::Hello("rack1".to_owned()) };
/// assert_eq!(Message::read(&message.write()), Some(message));
/// assert_eq!(Message::read(b"no message"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The sender.
    pub from: Actor,
    /// The content.
    pub body: Body,
}

/// The content of a message.
///
/// See [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Body {
    /// A heartbeat with the name of the node, which may be empty.
    Hello(String),
    /// Counts that have changed.
    Delta(Tallies),
    /// Digests of all parts at a time.
    Digests {
        /// The time in microseconds since the Unix epoch.
        at: u64,
        /// One number for each part.
        parts: Vec<u64>,
        /// Whether the receiver should answer with its own digests where they differ.
        back: bool,
    },
    /// Asks for these parts, one bit for each.
    Ask(u64),
    /// Counts that were asked for, and whether they are the last ones.
    Answer(Tallies, bool),
    /// The sender leaves.
    Bye,
}

/// Counts of keys, with a common list of actors.
///
/// See [`Message`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tallies {
    /// The actors: `actor` of a [`Tally`] is an index into this list.
    pub actors: Vec<Actor>,
    /// The limits.
    pub limits: Vec<LimitTally>,
}

/// Counts of the keys of a limit.
///
/// See [`Message`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitTally {
    /// 0 fixed window, 1 sliding window, 2 moving window, 3 bucket.
    pub kind: u8,
    /// Namespace and identity of the limit, as [`Place::prefix`](tollgate::shared::Place::prefix)
    /// has it.
    #[serde(with = "bytes")]
    pub place: Vec<u8>,
    /// The keys.
    pub keys: Vec<KeyTally>,
}

/// Counts of a key.
///
/// See [`Message`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyTally {
    /// The form and the bytes of the key.
    #[serde(with = "bytes")]
    pub key: Vec<u8>,
    /// The carry of a bucket that dead slots have left undrained: when it is drained, and when
    /// these slots were dead, in microseconds.
    pub carry: Option<(u64, u64)>,
    /// The counts.
    pub tallies: Vec<Tally>,
}

/// The units that one actor has counted in one slot.
///
/// See [`Message`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The index of the actor in the list of actors.
    pub actor: u32,
    /// The length of the slot in microseconds.
    pub span: u64,
    /// The number of the slot, counted in its length since the Unix epoch.
    pub slot: u64,
    /// Units charged.
    pub charged: u64,
    /// Units given back.
    pub refunded: u64,
    /// Units forgotten.
    pub forgotten: u64,
}

impl Message {
    /// Encodes the message.
    ///
    /// See the example of [`Message`].
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        // Writing to memory cannot fail. An empty message is ignored by its readers.
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// Decodes a message; `None` if the bytes are no message, or one of another version.
    ///
    /// See the example of [`Message`].
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let (version, rest) = bytes.split_first()?;
        if *version != VERSION || bytes.len() > LARGEST {
            return None;
        }
        let (message, rest) = postcard::take_from_bytes(rest).ok()?;
        rest.is_empty().then_some(message)
    }
}

/// Serializes bytes as bytes, not as a list of numbers.
mod bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        from.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tallies() -> impl Strategy<Value = Tallies> {
        let tally = (any::<u32>(), any::<u64>(), any::<u64>(), any::<[u64; 3]>());
        let tally = tally.prop_map(|(actor, span, slot, [charged, refunded, forgotten])| Tally {
            actor,
            span,
            slot,
            charged,
            refunded,
            forgotten,
        });
        let key = (any::<Vec<u8>>(), any::<Option<(u64, u64)>>());
        let key = (key, prop::collection::vec(tally, 0..4))
            .prop_map(|((key, carry), tallies)| KeyTally { key, carry, tallies });
        let limit = (any::<u8>(), any::<Vec<u8>>(), prop::collection::vec(key, 0..4))
            .prop_map(|(kind, place, keys)| LimitTally { kind, place, keys });
        (any::<Vec<u64>>(), prop::collection::vec(limit, 0..3))
            .prop_map(|(actors, limits)| Tallies { actors, limits })
    }

    fn body() -> impl Strategy<Value = Body> {
        prop_oneof![
            any::<String>().prop_map(Body::Hello),
            Just(Body::Bye),
            any::<u64>().prop_map(Body::Ask),
            (any::<u64>(), any::<Vec<u64>>(), any::<bool>())
                .prop_map(|(at, parts, back)| Body::Digests { at, parts, back }),
            tallies().prop_map(Body::Delta),
            (tallies(), any::<bool>()).prop_map(|(tallies, last)| Body::Answer(tallies, last)),
        ]
    }

    proptest! {
        #[test]
        fn messages_survive_a_round_trip(from in any::<u64>(), body in body()) {
            let message = Message { from, body };
            prop_assert_eq!(Message::read(&message.write()), Some(message));
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in any::<Vec<u8>>()) {
            let _ = Message::read(&bytes);
            let versioned: Vec<u8> = [VERSION].into_iter().chain(bytes).collect();
            let _ = Message::read(&versioned);
        }

        #[test]
        fn a_damaged_message_decodes_to_another_or_none(body in body(), at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Message { from: 1, body }.write();
            let place = at.index(bytes.len());
            bytes[place] = with;
            let _ = Message::read(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            let _ = Message::read(&bytes);
        }
    }

    /// A list that claims to be as long as possible allocates nothing.
    #[test]
    fn a_claimed_length_allocates_nothing() {
        for variant in [1, 2, 4] {
            let mut bytes = vec![VERSION, 1, variant];
            bytes.extend([0xff; 9]);
            bytes.push(1);
            assert_eq!(Message::read(&bytes), None);
        }
    }

    #[test]
    fn another_version_is_ignored() {
        let mut bytes = Message { from: 1, body: Body::Hello(String::new()) }.write();
        bytes[0] += 1;
        assert_eq!(Message::read(&bytes), None);
    }
}
