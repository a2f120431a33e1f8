//! Holds: units that are reserved before work begins, and settled when its cost is known.
//!
//! A hold charges its items as one all-or-nothing hit, and the store keeps a [`HoldRecord`] of it:
//! the definition of each limit, and a receipt of each charge. At the end the caller *settles*
//! what the work really took: the rest is given back by receipt, or more is charged. Slots of a
//! [concurrency limit](crate::algorithm::concurrent) belong to a hold, and are free at its deadline
//! at the latest.
//!
//! # How a call is decided
//!
//! [`decide`] is a pure function of (call, record, states of the items, now). It changes the record
//! and the states in place, and returns the [`HoldReply`]. A store executes one call as one atomic
//! step:
//!
//! 1. Read the record of (namespace, [`HoldId`]).
//! 2. Read the state of each part, in the order of [`HoldCall::parts`]: those of the items of a
//!    [`HoldCall::Reserve`], else those of the record. A part is one limit of an item with the
//!    item's key. Its state is that of hits with the same namespace, limit and key.
//! 3. Call [`decide`]. If it fails, nothing has changed.
//! 4. Write the record and the states that changed. A record can be forgotten from
//!    [`HoldRecord::forget_at`] on, and not before.
//!
//! A record is found by (namespace, home, id). The home is the slot of the hold's first key, as in
//! a cluster of Redis, so that a store that is divided into shards finds the record from the id
//! alone.
//!
//! A store that executes this function in another language is held equal to it by the conformance
//! suite.

mod call;
mod decide;
pub(crate) mod draft;
mod handle;
mod id;
mod record;
mod reply;
#[doc(hidden)]
pub mod table;

pub use call::{HoldCall, HoldItem, HoldPart, MAX_ITEMS, MAX_PARTS};
pub use decide::{HoldTerms, decide};
pub use handle::{Hold, HoldRequest, Holds, Reserved};
pub use id::HoldId;
pub use record::{HeldItem, HeldPart, HoldPhase, HoldRecord, MAX_RECEIPTS, MAX_RECORD_BYTES};
pub use reply::{HoldConflict, HoldItemReply, HoldReply, HoldStatus};

use std::time::Duration;

use crate::error::Error;
use crate::limit::{Algorithm, Limit};

/// The time after which a hold expires if neither the call nor a limit says one: one minute.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60);

/// The shortest time after which a hold can expire: one second.
pub const MIN_TTL: Duration = Duration::from_secs(1);

/// The longest time after which a hold can expire: 24 hours.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// The default time for which a record is kept after the end of its hold: ten minutes.
pub const DEFAULT_RETAIN: Duration = Duration::from_secs(600);

/// The longest time for which a record can be kept after the end of its hold: 30 days.
pub const MAX_RETAIN: Duration = Duration::from_secs(30 * 24 * 3600);

/// The default for the largest number of open holds in a store: one million.
pub const DEFAULT_MAX_HOLDS: usize = 1_000_000;

/// Returns an error if this is a concurrency limit. It is for `prepare` of stores that cannot hold
/// one; `store` is the name of the store.
///
/// # Errors
/// Fails for a concurrency limit.
///
/// ```
/// use tollgate::{Limit, hold::refuse_slots};
/// let error = refuse_slots(&Limit::concurrent(20).build()?, "Atomic").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "limit 20 concurrent: Atomic cannot hold a concurrency limit; Memory can"
/// );
/// # Ok::<(), tollgate::LimitError>(())
/// ```
pub fn refuse_slots(limit: &Limit, store: &str) -> Result<(), Error> {
    if limit.algorithm() != Algorithm::Concurrent {
        return Ok(());
    }
    Err(Error::unsupported(limit, format!("{store} cannot hold a concurrency limit; Memory can")))
}

/// The error of a store that cannot keep holds.
pub(crate) fn not_supported() -> Error {
    Error::unsupported("of a hold", "this store cannot keep holds; Memory can")
}
