//! Counters that every node keeps for itself and agrees on by messages.

mod builder;
mod counts;
mod digest;
mod driver;
mod entry;
mod limits;
mod marks;
mod message;
mod pack;
mod peers;
mod replica;
mod settings;
mod shard;
mod slot;
mod stats;
mod store;

pub use builder::Builder;
pub use counts::Actor;
pub use limits::Prepared;
pub use message::{Body, KeyTally, LimitTally, Message, PARTS, Tallies, Tally};
pub use replica::{Outgoing, Replica};
pub use settings::{OnMissing, Settings};
pub use stats::ReplicaStats;
pub use store::Replicated;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic elsewhere: what is guarded is consistent between any two statements.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
