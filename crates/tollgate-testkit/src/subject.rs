//! The trait that adapts a store to the suite.

use std::future::Future;
use std::time::Duration;

use tollgate::shared::SharedStore;
use tollgate::{KeyRef, Limit};

use crate::executor;

/// A store under test. Two methods are enough for most rules. The others have defaults and belong
/// to capabilities that are claimed in [`conformance!`](crate::conformance).
///
/// See the example at the top of the crate.
pub trait Subject: Send + Sync + Sized + 'static {
    /// The store.
    type Store: SharedStore;

    /// Another handle of the same store: all handles see the same counts. A new connection where
    /// there are connections.
    fn store(&self) -> Self::Store;

    /// Runs a future to its end. Several threads call it concurrently. The default parks the
    /// thread; override it where the store's timer needs the context of its runtime
    /// (`self.runtime.block_on(future)`).
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        executor::block_on(future)
    }

    /// Whether the store may refuse this limit with
    /// [`ErrorKind::Unsupported`](tollgate::ErrorKind::Unsupported). Every other limit it must
    /// hold.
    fn refuses(&self, limit: &Limit) -> bool {
        let _ = limit;
        false
    }

    /// The number of units up to which a counter of this limit is exact. Beyond it may saturate.
    fn counts_to(&self, limit: &Limit) -> u64 {
        let _ = limit;
        u64::MAX
    }

    /// Claim `lifetime`: how long the store will keep the state of a key without further calls,
    /// asked right after a call. `None` if it cannot tell.
    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let _ = (namespace, limit, key);
        None
    }

    /// Claim `processes`: how another process finds this store. It is passed in an environment
    /// variable.
    fn address(&self) -> Option<String> {
        None
    }

    /// Claim `processes`: the store of another process, by its [`address`](Subject::address).
    #[must_use]
    fn connect(address: &str) -> Option<Self> {
        let _ = address;
        None
    }

    /// Claim `outage`: makes the store stop answering (kills it, suspends it, cuts the connection).
    /// Returns true if it did.
    fn break_store(&self) -> bool {
        false
    }

    /// Claim `outage`: makes the store answer again. It may have lost its states.
    fn mend_store(&self) {}
}

/// The time for which a store keeps the state of a key. TTLs count from when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The store has no state of the key.
    Nothing,
    /// The state is kept for this long.
    For(Duration),
    /// The state is kept without end.
    ForEver,
}

/// A [`Subject`] for a store that needs no runtime: all handles are clones of it.
///
/// ```
/// use tollgate::{Memory, shared::InProcess};
/// use tollgate_testkit::{OneStore, Subject};
///
/// let subject = OneStore::new(InProcess::new(Memory::new()));
/// let _another_handle = subject.store();
/// ```
#[derive(Clone, Debug)]
pub struct OneStore<S>(S);

impl<S: SharedStore> OneStore<S> {
    /// This store.
    ///
    /// See the example of [`OneStore`].
    #[must_use]
    pub fn new(store: S) -> Self {
        OneStore(store)
    }
}

impl<S: SharedStore> Subject for OneStore<S> {
    type Store = S;

    fn store(&self) -> S {
        self.0.clone()
    }
}
