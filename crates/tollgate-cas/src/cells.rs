//! The contract between [`Cas`](crate::Cas) and a store with compare-and-swap.

use std::fmt::{self, Debug};
use std::future::Future;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use tollgate::shared::Place;
use tollgate::{Error, KeyRef, Limit};

/// A store of cells. A cell is a value under a name, with a version that changes whenever the value
/// does. To change a cell, a caller must know its version.
///
/// An implementation must guarantee:
///
/// - A [`swap`](Cells::swap) changes all its cells if every cell has the expected version, and none
///   otherwise. It returns [`Swapped::Lost`] only if nothing was changed for certain, and
///   [`Error::unavailable`] only if nothing was executed for certain. When in doubt it returns
///   [`Error::lost`]. An implementation never sends a swap a second time on its own.
/// - A name never gets the same version twice, not even after the store has lost all data. If a
///   store may have been replaced since a version was read, a swap on that version is `Lost`.
/// - A cell lives at least as long as [`Change::Put`] says, and is deleted some time later. A store
///   that rounds, rounds up.
/// - Errors describe the store only. An implementation does not parse values.
///
/// [`Table`](crate::Table) is the smallest implementation.
pub trait Cells: Debug + Send + Sync + 'static {
    /// Differs between any two writes of one cell: a revision, a CAS number.
    type Version: Copy + Debug + Send + Sync + 'static;

    /// Whether one swap can change several cells. If not, each swap changes one, and combined hits
    /// are charged one by one and refunded when one of them is denied.
    const TOGETHER: bool;

    /// Checks that the store can hold the states of this limit. Most stores can hold all.
    ///
    /// # Errors
    /// [`Error::unsupported`], which says why and which stores can.
    fn holds(&self, limit: &Limit) -> Result<(), Error> {
        let _ = limit;
        Ok(())
    }

    /// The prefix of the names of a limit's cells, or (without a limit) of a whole namespace. No
    /// prefix of one namespace or limit is the prefix of another one.
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

    /// The name of a key's cell: the prefix and the key. Different keys have different names.
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

    /// The lane of this key's cells, the same in all limits. A lane is a part of the store that
    /// fails as a whole, such as one server. Below the number of lanes of the
    /// [`Guard`](tollgate::shared::Guard).
    fn lane(&self, key: KeyRef<'_>) -> usize {
        let _ = key;
        0
    }

    /// Reads the cells, in the order of the names. Where one swap can change several cells, a read
    /// sees them all at the same moment.
    fn read(
        &self,
        names: &[Name],
    ) -> impl Future<Output = Result<Vec<Option<Cell<Self::Version>>>, Error>> + Send;

    /// Changes all cells, or none. With `sure` the swap will very likely succeed. Without, it may
    /// well be lost: then return the cells with [`Swapped::Lost`] if that is cheap.
    fn swap(
        &self,
        swaps: &[Swap<'_, Self::Version>],
        sure: bool,
    ) -> impl Future<Output = Result<Swapped<Self::Version>, Error>> + Send;

    /// Deletes all cells whose names have this prefix, in several requests if there are many.
    fn forget(&self, place: &[u8]) -> impl Future<Output = Result<(), Error>> + Send;

    /// Checks that the store answers.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Called when several calls in a row have failed: a connection that looks alive may be dead.
    /// Must not block.
    fn suspect(&self) {}
}

/// Lets several stores share cells.
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

/// The name of a cell, and its lane.
///
/// ```
/// use tollgate_cas::Name;
/// let name = Name::new(*b"user 42", 3);
/// assert_eq!((name.bytes(), name.lane(), name.to_string()), (&b"user 42"[..], 3, "user 42".into()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Name {
    /// Hash of the bytes with a seed of this process. Computed once for all hash maps.
    hash: u64,
    bytes: Vec<u8>,
    lane: usize,
}

impl Name {
    /// A name of these bytes in this lane.
    ///
    /// See the example of [`Name`].
    pub fn new(bytes: impl Into<Vec<u8>>, lane: usize) -> Name {
        static HASHER: OnceLock<RandomState> = OnceLock::new();
        let bytes = bytes.into();
        let hash = HASHER.get_or_init(RandomState::default).hash_one(&bytes[..]);
        Name { hash, bytes, lane }
    }

    /// The index of its shard, below `shards`.
    pub(crate) fn shard(&self, shards: usize) -> usize {
        // The upper half: hash maps use the lower.
        (self.hash >> 32) as usize % shards
    }

    /// The bytes, as [`Cells::name`] returned them.
    ///
    /// See the example of [`Name`].
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The lane, as [`Cells::lane`] returned it.
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

/// The value and version of a cell.
///
/// See [`Cells`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell<V> {
    /// The value.
    pub value: Vec<u8>,
    /// The version of the cell.
    pub version: V,
}

/// The change of one cell.
///
/// See [`Cells`].
#[derive(Clone, Copy, Debug)]
pub struct Swap<'a, V> {
    /// The name of the cell.
    pub name: &'a Name,
    /// The version that the cell must have; `None` if the cell must not exist.
    pub expected: Option<V>,
    /// The change.
    pub change: Change<'a>,
}

/// How a swap changes a cell.
///
/// See [`Cells`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Leaves the cell as it is; only its version is compared. Used only where one swap can change
    /// several cells.
    Keep,
    /// Writes a value that may expire after `keep`.
    Put {
        /// The value.
        value: &'a [u8],
        /// The least time that the cell must live from now on.
        keep: Duration,
    },
    /// Deletes the cell.
    Delete,
}

/// The outcome of a swap.
///
/// See [`Cells`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped<V> {
    /// All cells were changed. Their new versions; `None` for a deleted cell.
    Done(Vec<Option<V>>),
    /// Nothing was changed, because a cell has another version than expected. The current cells, if
    /// they are known.
    Lost(Option<Vec<Option<Cell<V>>>>),
}
