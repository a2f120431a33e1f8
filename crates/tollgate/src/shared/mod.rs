//! Stores that wait: on another process, on a network.
//!
//! [`SharedStore`] is the contract, users hold [`SharedLimiter`]s. What happens when the store does not answer is decided here, in one place for all stores:
//! [`OnFailure`], deadlines and breakers ([`Guard`]).

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
mod stats;
mod together;
mod try_write;
mod wait;
mod without_secrets;

pub use any::{AnyPrepared, AnyStore};
pub use failure::{OnFailure, Share};
pub use figure::Figure;
pub use guard::{Guard, GuardBuilder};
pub use in_process::InProcess;
pub use limiter::{SharedCall, SharedLimiter};
pub use place::Place;
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
use crate::time::Timestamp;

/// A store whose answers take time and may not come. Handles are cheap to clone and share one
/// connection and one [`Guard`]: two handles with the same guard are of one store.
///
/// What it must hold to:
///
/// - The decisions are those of [`AnyMachine::apply`](crate::algorithm::AnyMachine::apply), and of
///   [`AnyMachine::refuse`](crate::algorithm::AnyMachine::refuse) for a group that is refused.
/// - One [`ask`](SharedStore::ask) on one key is one atomic step, whoever else asks.
///   [`Mode::Together`] is one step over all its keys, or (where the store cannot) charges in order
///   and gives back: never more is admitted than the limits allow.
/// - An error is never a decision, and a decision never hides an error. [`Error::unavailable`] only
///   if the call has surely not been executed; when in doubt [`Error::lost`]. A call that may have
///   been executed is never sent a second time.
/// - State lives at least until it equals a fresh one, and not for ever after.
/// - Keys come as [`OwnedKey`](crate::OwnedKey) has them: the limiters pass the digest of a long
///   key, so a store need not bound their bytes.
/// - The futures own what they need: the key may be gone before they are polled.
///
/// The crate `tollgate-testkit` checks all of it.
pub trait SharedStore: Clone + Debug + Send + Sync + 'static {
    /// A limit as this store holds it.
    type Prepared: Clone + Debug + Send + Sync + 'static;

    /// Accepts a limit in a namespace.
    ///
    /// # Errors
    /// When this store cannot hold it; the message says why.
    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error>;

    /// Does all operations; one decision for each, in order. `at` is the time, `None` for the
    /// store's own clock.
    ///
    /// With [`Mode::Together`] all operations are [`Op::Hit`], on different counters.
    fn ask(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        mode: Mode,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<Self>;

    /// [`ask`](SharedStore::ask) for a caller who waits no longer than `deadline`. For stores that
    /// queue calls: a call that cannot be answered in time need not be sent.
    fn ask_within(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        mode: Mode,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<Self> {
        let _ = deadline;
        self.ask(asks, mode, at)
    }

    /// One operation on one key, answered at once where that needs no waiting: in process, or with
    /// an allotment in hand. `None`: [`ask`](SharedStore::ask). Always tried first for a limiter of
    /// one limit.
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

    /// Forgets a key in all these limits; true if its state was not fresh in one of them.
    fn reset(
        &self,
        prepared: &[Self::Prepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<Self>;

    /// Forgets all keys of a limit, in slices.
    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<Self>;

    /// Can the store decide? Stores that wait end this with [`try_write`], because one that is full
    /// or read-only still answers questions.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<Self>;

    /// What stands between callers and this store, shared by all its handles.
    fn guard(&self) -> &Guard;

    /// Which part of the store answers for this key: what has one lane fails together. Below the
    /// number of lanes of the [`Guard`].
    fn lane(&self, prepared: &Self::Prepared, key: KeyRef<'_>) -> usize {
        let _ = (prepared, key);
        0
    }

    /// Told when several calls in a row have failed: a connection that looks alive may be dead.
    fn suspect(&self) {}

    /// What this store has to say of itself beside the counters of its [`Guard`], for metrics.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// What is wrong with the store, for anybody who looks at its health: for example how many
    /// nodes of its fleet are missing. No names, no addresses.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Before this process ends: what it holds for others is given back, and peers are told. Errors
    /// are nobody's any more.
    fn leave(&self) -> impl Future<Output = ()> + Send + use<Self> {
        std::future::ready(())
    }

    /// The timer of the runtime that the store lives on.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<Self>;

    /// Lets a task run to its end on that runtime.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);
}

/// One operation on one key of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a, P> {
    /// The limit.
    pub prepared: &'a P,
    /// The key.
    pub key: KeyRef<'a>,
    /// What is asked.
    pub op: Op,
}

/// How several operations belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each on its own.
    Each,
    /// Hits that are all charged or none is.
    Together,
}
