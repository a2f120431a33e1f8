//! What a store brings to be tested.

use std::future::Future;
use std::time::Duration;

use tollgate::shared::SharedStore;
use tollgate::{KeyRef, Limit};

use crate::executor;

/// A store under test. Two methods are enough for most rules; the others have defaults and belong
/// to capabilities that a line of [`conformance!`](crate::conformance) claims.
///
/// See the example at the top of the crate.
pub trait Subject: Send + Sync + Sized + 'static {
    /// The store.
    type Store: SharedStore;

    /// Another handle of the same store: what one of them counts, all see. A new connection where
    /// there are connections.
    fn store(&self) -> Self::Store;

    /// Runs a future to its end; several threads call it at once. The default parks the thread:
    /// override it where the store's timer needs the context of its runtime
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

    /// Up to how many units a counter of this limit is exact; beyond, it may saturate.
    fn counts_to(&self, limit: &Limit) -> u64 {
        let _ = limit;
        u64::MAX
    }

    /// Claim `lifetime`: for how long the store will keep the state of a key if nobody comes, asked
    /// right after a call on it. `None` if it cannot tell.
    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        let _ = (namespace, limit, key);
        None
    }

    /// Claim `processes`: how another process finds this very store. It is passed in an environment
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

    /// Claim `outage`: makes the store stop answering (kill it, stop it, cut the line); true if it
    /// does.
    fn break_store(&self) -> bool {
        false
    }

    /// Claim `outage`: makes it answer again. It may have lost its states.
    fn mend_store(&self) {}
}

/// For how long a store keeps the state of a key. TTLs count from when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// There is none.
    Nothing,
    /// For that much longer.
    For(Duration),
    /// Without end.
    ForEver,
}

/// A [`Subject`] that is nothing but a store: all handles are clones of it, and it needs no
/// runtime.
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
