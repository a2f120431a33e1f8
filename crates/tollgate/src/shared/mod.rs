//! Shared stores: stores in another process or on a network, whose answers take time and may fail.
//!
//! [`SharedStore`] is the contract of such a store, and users have [`SharedLimiter`]s. This module
//! handles a store that does not answer, in the same way for all stores: with [`OnFailure`], and
//! with deadlines and circuit breakers ([`Guard`]).

mod any;
mod asking;
mod breaker;
mod denials;
mod failure;
mod figure;
mod forget;
mod guard;
mod holds;
mod in_process;
mod limiter;
mod limiters;
mod load;
mod many;
mod owed;
mod percent;
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
pub use figure::{Figure, FleetNode, StoreReport};
pub use guard::{Guard, GuardBuilder};
pub use holds::{SharedHold, SharedHoldRequest, SharedHolds, SharedReserved};
pub use in_process::InProcess;
pub use limiter::{SharedCall, SharedLimiter};
pub use percent::percent_decoded;
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
use crate::hold::{HoldCall, HoldId, HoldReply};
use crate::key::KeyRef;
use crate::limit::Limit;
use crate::outcome::Outcome;
pub use crate::store::HitItem;
use crate::time::Timestamp;

/// A store whose answers take time and may fail. Its clones share one connection and one [`Guard`],
/// and are cheap. Two handles with the same guard belong to the same store.
///
/// A store obeys these rules:
///
/// - The decisions are those of [`AnyMachine::act`](crate::algorithm::AnyMachine::act). For a hit
///   on several limits or keys they are those of [`hit_together`](crate::algorithm::hit_together).
/// - One operation on one key is one atomic step, even if other callers use the key at the same
///   time. [`ask_together`](SharedStore::ask_together) is one atomic step on all its keys if the
///   store can do that. Otherwise the store charges the keys in order, and refunds them if one is
///   denied. It never admits more than the limits allow.
/// - An error is never a decision, and a decision never hides an error. A store returns
///   [`Error::unavailable`] only if the call has certainly not been executed, and [`Error::lost`]
///   if that is not certain. A call that may have been executed is never sent a second time.
/// - A state is kept at least until it equals a fresh one, and is deleted some time later.
/// - Limiters pass keys in the form of [`OwnedKey`](crate::OwnedKey): a long key as its digest. So
///   a store need not limit the length of keys.
/// - The futures own their data, because the key may no longer exist when they are polled.
///
/// Five methods are required. `at` is the time; `None` means the store's own clock. `deadline` is
/// how long the caller waits. The guard ends the call after that time, so a store need not send a
/// call that it cannot answer before.
///
/// The crate `tollgate-testkit` checks all these rules.
pub trait SharedStore: Clone + Debug + Send + Sync + 'static {
    /// A limit in the form that this store uses.
    type Prepared: Clone + Debug + Send + Sync + 'static;

    /// Prepares a limit in a namespace for calls.
    ///
    /// # Errors
    /// Fails if this store does not support the limit. The message says why.
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error>;

    /// Executes each operation independently. Returns one outcome for each operation, in order.
    fn ask_each(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<Self>;

    /// Makes all hits or none. Returns one outcome for each hit, in order. No two hits are on the
    /// same counter.
    fn ask_together(
        &self,
        hits: &[HitItem<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<Self>;

    /// Forgets all keys of a limit, in batches.
    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<Self>;

    /// Executes one call on one hold, as one atomic step: see the module [`hold`](crate::hold). The
    /// decision is that of [`decide`](crate::hold::decide).
    ///
    /// The default implementation refuses all holds. A store that implements this method also
    /// implements [`keeps_holds`](SharedStore::keeps_holds).
    fn hold(
        &self,
        namespace: &str,
        id: &HoldId,
        call: &HoldCall,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<HoldReply, Error>> + Send + use<Self> {
        let _ = (namespace, id, call, at, deadline);
        std::future::ready(Err(crate::hold::not_supported()))
    }

    /// Returns an error if this store cannot keep holds. The message names a store that can.
    ///
    /// # Errors
    /// The default implementation always fails.
    fn keeps_holds(&self) -> Result<(), Error> {
        Err(crate::hold::not_supported())
    }

    /// Returns the guard of the store, which all its handles share.
    fn guard(&self) -> &Guard;

    /// Executes one operation on one key if the store can answer without waiting, for instance
    /// because its state is in this process. `None` means that the caller must use
    /// [`ask_each`](SharedStore::ask_each). A limiter with one limit always tries this first.
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

    /// Returns the lane of this key: the number of the part of the store that keeps the key and
    /// fails as a whole. It is below the number of lanes of the [`Guard`].
    fn lane(&self, prepared: &Self::Prepared, key: KeyRef<'_>) -> usize {
        let _ = (prepared, key);
        0
    }

    /// Checks whether the store can decide. A store that is full or read-only still answers reads,
    /// so the check of a store outside this process ends with [`try_write`].
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<Self> {
        try_write(self)
    }

    /// Returns figures and warnings of the store, in addition to the counters of its [`Guard`].
    fn report(&self) -> StoreReport {
        StoreReport::default()
    }

    /// Prepares the end of this process. The store gives back units that it has drawn in advance,
    /// and informs its peers. Errors are ignored, because no caller is left.
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
