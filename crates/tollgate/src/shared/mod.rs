//! Stores whose answers must be waited for: in another process, or on a network.
//!
//! [`SharedStore`] is the contract; users hold [`SharedLimiter`]s. The handling of a store that
//! does not answer is here, in one place for all stores: [`OnFailure`], deadlines and breakers
//! ([`Guard`]).

mod any;
mod asking;
mod breaker;
mod denials;
mod failure;
mod figure;
mod forget;
mod guard;
mod in_process;
mod limiter;
mod limiters;
mod load;
mod many;
mod owed;
mod place;
mod rescue;
mod runtime;
mod stats;
mod together;
mod try_write;
mod wait;
mod without_secrets;

pub use any::{AnyPrepared, AnyStore};
pub use failure::{OnFailure, Share};
pub use figure::{Figure, StoreReport};
pub use guard::{Guard, GuardBuilder};
pub use in_process::InProcess;
pub use limiter::{SharedCall, SharedLimiter};
pub use place::Place;
pub use runtime::{Runtime, Task};
pub use stats::Stats;
pub use together::{SharedItem, hit_all_shared, refund_all_shared};
pub use try_write::try_write;
pub use without_secrets::without_secrets;

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use crate::algorithm::Op;
use crate::error::Error;
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::outcome::Outcome;
pub use crate::store::HitItem;
use crate::time::Timestamp;

/// A store whose answers take time and may not come. Handles are cheap to clone and share one
/// connection and one [`Guard`]: two handles with the same guard belong to one store.
///
/// The rules of the contract:
///
/// - The decisions are those of [`AnyMachine::act`](crate::algorithm::AnyMachine::act), for a group
///   those of [`hit_together`](crate::algorithm::hit_together).
/// - One operation on one key is one atomic step, whichever callers ask at the same time.
///   [`ask_together`](SharedStore::ask_together) is one step over all its keys, or (where the store
///   cannot) charges in order and refunds: never more is admitted than the limits allow.
/// - An error is never a decision, and a decision never hides an error. [`Error::unavailable`] only
///   if the call has surely not been executed; when in doubt [`Error::lost`]. A call that may have
///   been executed is never sent a second time.
/// - State lives at least until it equals a fresh one, and is deleted some time after.
/// - Keys come as [`OwnedKey`](crate::OwnedKey) has them: the limiters pass the digest of a long
///   key, so a store need not bound their bytes.
/// - The futures own what they need: the key may be gone before they are polled.
///
/// Five methods are required. `at` is the time, `None` for the store's own clock. `deadline` is how
/// long the caller waits: the guard ends the call then, and a call that a store cannot answer in
/// time need not be sent.
///
/// The crate `tollgate-testkit` checks all these rules.
pub trait SharedStore: Clone + Debug + Send + Sync + 'static {
    /// A limit as this store holds it.
    type Prepared: Clone + Debug + Send + Sync + 'static;

    /// Accepts a limit in a namespace.
    ///
    /// # Errors
    /// When this store cannot hold it; the message says why.
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error>;

    /// Executes each operation independently; one outcome for each, in order.
    fn ask_each(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<Self>;

    /// Hits all or none; one outcome for each, in order. No two hits are on the same counter.
    fn ask_together(
        &self,
        hits: &[HitItem<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<Self>;

    /// Forgets all keys of a limit, in slices.
    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<Self>;

    /// Deadline, breakers, remembered denials and runtime: shared by all handles of a store.
    fn guard(&self) -> &Guard;

    /// One operation on one key, if the store has the answer without waiting: in process, or with
    /// an allotment in hand. `None`: call [`ask_each`](SharedStore::ask_each). A limiter of one
    /// limit always tries this first.
    fn try_now(
        &self,
        prepared: &Self::Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        let _ = (prepared, key, op, at);
        None
    }

    /// The part of the store that answers for this key: keys with one lane fail together. It is
    /// below the number of lanes of the [`Guard`].
    fn lane(&self, prepared: &Self::Prepared, key: KeyRef<'_>) -> usize {
        let _ = (prepared, key);
        0
    }

    /// Checks whether the store can decide. A store that is full or read-only still answers
    /// questions, so this ends with [`try_write`] where it is not in this process.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<Self> {
        try_write(self)
    }

    /// The store's report on itself, in addition to the counters of its [`Guard`].
    fn report(&self) -> StoreReport {
        StoreReport::default()
    }

    /// Called before this process ends: what the store holds for others is given back, and peers
    /// are informed. Errors are ignored, because no caller is left.
    fn leave(&self) -> impl Future<Output = ()> + Send + use<Self> {
        std::future::ready(())
    }
}

/// One operation on one key of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a, P> {
    /// The limit.
    pub prepared: &'a P,
    /// The key.
    pub key: KeyRef<'a>,
    /// The operation.
    pub op: Op,
}
