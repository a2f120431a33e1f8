//! The keys of counters in a store whose keys are plain bytes.

use crate::key::{Form, KeyRef};
use crate::limit::Limit;

/// The keys of one limit in one namespace, as bytes. Such a key is the length and the bytes of the
/// namespace, the length and the bytes of the limit's identity, and the form and the bytes of the
/// key. Two places never have the same key. All keys of a limit have the same prefix, and so have
/// all keys of a namespace.
///
/// ```
/// use tollgate::{KeyRef, Limit, shared::Place};
/// let place = Place::new("shop", &Limit::per_second(10).build()?);
/// let key = place.key(KeyRef::plain(b"user:42"));
/// assert!(key.starts_with(place.prefix()) && place.prefix().starts_with(&Place::of_namespace("shop")));
/// assert_eq!(place.key_in(&key), Some(KeyRef::plain(b"user:42")));
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    prefix: Box<[u8]>,
}

impl Place {
    /// Creates the place of a limit in a namespace.
    ///
    /// See the example of [`Place`].
    #[must_use]
    pub fn new(namespace: &str, limit: &Limit) -> Place {
        let mut prefix = Place::of_namespace(namespace);
        frame(limit.identity().as_bytes(), &mut prefix);
        Place { prefix: prefix.into() }
    }

    /// Returns the bytes with which all keys of a namespace begin.
    ///
    /// See the example of [`Place`].
    #[must_use]
    pub fn of_namespace(namespace: &str) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(namespace.len() + 64);
        frame(namespace.as_bytes(), &mut prefix);
        prefix
    }

    /// Returns the bytes with which all keys of the limit begin.
    ///
    /// See the example of [`Place`].
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the bytes of one key.
    ///
    /// See the example of [`Place`].
    #[must_use]
    pub fn key(&self, key: KeyRef<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.prefix.len() + 1 + key.bytes().len());
        bytes.extend_from_slice(&self.prefix);
        bytes.push(key.form() as u8);
        bytes.extend_from_slice(key.bytes());
        bytes
    }

    /// Returns the key of these bytes. `None` if they are not a key of this place.
    ///
    /// See the example of [`Place`].
    #[must_use]
    pub fn key_in<'a>(&self, bytes: &'a [u8]) -> Option<KeyRef<'a>> {
        let (form, bytes) = bytes.strip_prefix(&self.prefix[..])?.split_first()?;
        Some(KeyRef::from_parts(Form::from_byte(*form)?, bytes))
    }
}

/// Appends the length in four bytes, the highest first, and then the bytes.
fn frame(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}
