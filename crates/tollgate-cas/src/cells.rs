//! What a store must be able to do to hold limits.

use std::fmt::{self, Debug};
use std::future::Future;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use tollgate::shared::Place;
use tollgate::{Error, KeyRef, Limit};

/// A store of cells. A cell is a value under a name, with a version that changes whenever the value
/// does; it is changed only by who knows its version.
///
/// What it must hold to:
///
/// - A [`swap`](Cells::swap) changes all its cells if every one of them has the version that is
///   expected of it, and none otherwise. It is [`Swapped::Lost`] only if surely nothing was
///   changed, [`Error::unavailable`] only if surely nothing was executed; when in doubt it is
///   [`Error::lost`]. An implementation never sends a swap a second time on its own.
/// - No version is ever given twice to a name, also not after a store has lost everything: what is
///   expected of a store that may have been another one meanwhile is `Lost`.
/// - A cell lives at least as long as it was put for, and is gone some time later. A store that
///   rounds, rounds up.
/// - Errors are of the store. What a cell holds is not looked at.
///
/// [`Table`](crate::Table) is the smallest one.
pub trait Cells: Debug + Send + Sync + 'static {
    /// What tells two writes of one cell apart: a revision, a CAS number.
    type Version: Copy + Debug + Send + Sync + 'static;

    /// Whether one swap may be over several cells. If not, a swap is always of one, and hits that
    /// belong together are charged one by one and given back when one of them is refused.
    const TOGETHER: bool;

    /// Whether it can hold the states of this limit. Most can hold all.
    ///
    /// # Errors
    /// [`Error::unsupported`], which says why and who can.
    fn holds(&self, limit: &Limit) -> Result<(), Error> {
        let _ = limit;
        Ok(())
    }

    /// How the names of a limit's cells begin, or (without a limit) those of a whole namespace.
    /// Namespaces and identities of limits never run together.
    ///
    /// ```
    /// use tollgate_cas::{Cells, Table};
    /// let (table, limit) = (Table::<true>::default(), "5/second".parse()?);
    /// assert!(table.place("shop", Some(&limit)).starts_with(&table.place("shop", None)));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    fn place(&self, namespace: &str, limit: Option<&Limit>) -> Vec<u8> {
        match limit {
            Some(limit) => Place::new(namespace, limit).prefix().to_vec(),
            None => Place::of_namespace(namespace),
        }
    }

    /// The name of a key's cell. Different keys have different names.
    ///
    /// ```
    /// use tollgate::KeyRef;
    /// use tollgate_cas::{Cells, Table};
    /// assert_eq!(Table::<true>::default().name(b"place", KeyRef::plain(b"alice")), b"place\0alice");
    /// ```
    fn name(&self, place: &[u8], key: KeyRef<'_>) -> Vec<u8> {
        let mut name = Vec::with_capacity(place.len() + 1 + key.bytes().len());
        name.extend_from_slice(place);
        name.push(key.form() as u8);
        name.extend_from_slice(key.bytes());
        name
    }

    /// Which part of the store has the cells of this key, in all limits: what has one lane fails
    /// together. Below the number of lanes of the [`Guard`](tollgate::shared::Guard).
    fn lane(&self, key: KeyRef<'_>) -> usize {
        let _ = key;
        0
    }

    /// What the cells hold, in the order of the names. Where swaps are of several cells, so are
    /// reads: all are of one moment.
    fn read(
        &self,
        names: &[Name],
    ) -> impl Future<Output = Result<Vec<Option<Cell<Self::Version>>>, Error>> + Send;

    /// Changes all cells, or none. `sure` tells that it will very likely not be lost: if it is not
    /// sure, and costs little, have ready what the cells hold.
    fn swap(
        &self,
        swaps: &[Swap<'_, Self::Version>],
        sure: bool,
    ) -> impl Future<Output = Result<Swapped<Self::Version>, Error>> + Send;

    /// Forgets all cells whose names begin so, in slices.
    fn forget(&self, place: &[u8]) -> impl Future<Output = Result<(), Error>> + Send;

    /// Can the store answer?
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Told when several calls in a row have failed: a connection that looks alive may be dead.
    /// Must not wait.
    fn suspect(&self) {}
}

/// Cells that several stores share.
impl<C: Cells> Cells for Arc<C> {
    type Version = C::Version;

    const TOGETHER: bool = C::TOGETHER;

    fn holds(&self, limit: &Limit) -> Result<(), Error> {
        (**self).holds(limit)
    }

    fn place(&self, namespace: &str, limit: Option<&Limit>) -> Vec<u8> {
        (**self).place(namespace, limit)
    }

    fn name(&self, place: &[u8], key: KeyRef<'_>) -> Vec<u8> {
        (**self).name(place, key)
    }

    fn lane(&self, key: KeyRef<'_>) -> usize {
        (**self).lane(key)
    }

    fn read(
        &self,
        names: &[Name],
    ) -> impl Future<Output = Result<Vec<Option<Cell<C::Version>>>, Error>> + Send {
        (**self).read(names)
    }

    fn swap(
        &self,
        swaps: &[Swap<'_, C::Version>],
        sure: bool,
    ) -> impl Future<Output = Result<Swapped<C::Version>, Error>> + Send {
        (**self).swap(swaps, sure)
    }

    fn forget(&self, place: &[u8]) -> impl Future<Output = Result<(), Error>> + Send {
        (**self).forget(place)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send {
        (**self).check()
    }

    fn suspect(&self) {
        (**self).suspect();
    }
}

/// The name of a cell, and which part of the store has it.
///
/// ```
/// use tollgate_cas::Name;
/// let name = Name::new(*b"user 42", 3);
/// assert_eq!((name.bytes(), name.lane(), name.to_string()), (&b"user 42"[..], 3, "user 42".into()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Name {
    /// Of the bytes, by this process: computed once for all tables that it is looked up in.
    hash: u64,
    bytes: Vec<u8>,
    lane: usize,
}

impl Name {
    /// Of these bytes in this lane.
    ///
    /// See the example of [`Name`].
    pub fn new(bytes: impl Into<Vec<u8>>, lane: usize) -> Name {
        static HASHER: OnceLock<RandomState> = OnceLock::new();
        let bytes = bytes.into();
        let hash = HASHER.get_or_init(RandomState::default).hash_one(&bytes[..]);
        Name { hash, bytes, lane }
    }

    /// Which of so many shards.
    pub(crate) fn shard(&self, shards: usize) -> usize {
        // The upper half: tables go by the lower.
        (self.hash >> 32) as usize % shards
    }

    /// What [`Cells::name`] said.
    ///
    /// See the example of [`Name`].
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What [`Cells::lane`] said.
    ///
    /// See the example of [`Name`].
    #[must_use]
    pub fn lane(&self) -> usize {
        self.lane
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes.escape_ascii())
    }
}

impl Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// What a cell holds.
///
/// See [`Cells`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell<V> {
    /// The value.
    pub value: Vec<u8>,
    /// Its version.
    pub version: V,
}

/// The change of one cell.
///
/// See [`Cells`].
#[derive(Clone, Copy, Debug)]
pub struct Swap<'a, V> {
    /// Which.
    pub name: &'a Name,
    /// The version that it must have; `None` if there must be no such cell.
    pub expected: Option<V>,
    /// What becomes of it.
    pub change: Change<'a>,
}

/// What becomes of a cell.
///
/// See [`Cells`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It stays as it is; only its version counts. Only where swaps are of several cells.
    Keep,
    /// It gets this value, and may be gone after so long.
    Put {
        /// The value.
        value: &'a [u8],
        /// For how long it must live, from now on.
        keep: Duration,
    },
    /// There is no such cell any more.
    Delete,
}

/// What became of a swap.
///
/// See [`Cells`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped<V> {
    /// All cells were changed, and have these versions now; `None` where there is no cell any more.
    Done(Vec<Option<V>>),
    /// Nothing was changed, because a cell has another version. What the cells hold instead, if
    /// that is known.
    Lost(Option<Vec<Option<Cell<V>>>>),
}
