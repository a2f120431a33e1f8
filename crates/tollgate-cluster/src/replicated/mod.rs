//! Counters that every node keeps for itself and agrees on by messages.
//!
//! [`Replicated`] decides in this process, without a store on the way. Every node counts what it
//! has admitted and tells the others over a [`bus`](crate::bus); each decides on the sum of all
//! counts that it knows. Counts are cumulative and merge by maximum, so messages may be lost,
//! doubled and late. Who comes new asks for what was counted, who was cut off agrees again within
//! seconds of being back.
//!
//! # What may be admitted beyond the limit
//!
//! A node admits on all units but those that it does not know. With `L` for the limit (of a bucket,
//! its burst), `D` for the longest that a count stayed unheard, and `A(x)` for the most units that
//! all nodes are offered in any span `x`, it is the smallest of:
//!
//! - `A(D)`, where `D` is the flush interval and the way of a message as long as none is lost; at
//!   most the time to the next comparison once nodes are connected;
//! - `(S-1) L`, where `S` is the number of process starts that have served what counts;
//! - while the nodes are split into `G` groups, `(G-1) L` and what each group adds by its own `D`.
//!
//! In the first and the last case add what a process has admitted that crashed before anybody
//! heard. For a bucket all this is said of its level: in any span it admits as much more than its
//! burst and its rate allow, as long as counts arrive within the time in which it drains, and
//! within a second.
//!
//! A window is what the clocks of the nodes call so. Clocks that are wrong by `e` make up to `2
//! A(e)` more of a window of true time, `A(2e)` more of a moving window, and what flows back in
//! `2e` more of a bucket. Nodes must agree on the time of day to well below the period; counts more
//! than ten seconds ahead are not taken, and counted in [`ReplicaStats::ahead`].
//! [`SystemClock`](tollgate::SystemClock), the clock unless told otherwise, is the time of day when
//! the process began and the time that passed since: a date that was wrong then stays wrong until
//! the process is started anew. Suspended time counts on Linux; elsewhere a machine that was
//! suspended may be behind.
//!
//! Each decision has the bound as its node knows it, by the second of these rules and, where
//! [`peak`](Builder::peak) is set, by the first.
//!
//! # What differs from other stores
//!
//! - Refused are limits whose counts do not merge: elastic windows, windows of a key's own,
//!   `charge_denied`. Sliding windows are those of the clock.
//! - After counts of others have arrived, a moving window and a bucket take a unit for up to a slot
//!   younger than it is, about a fiftieth of the period: they never admit more for that, and a
//!   little later.
//! - A refund gives back at most what this node itself has counted in that slot; give it to the
//!   node that admitted. Set and reset forget what this node knows of everybody's counts. What
//!   others admit at the same time stays, and a refund that crosses a reset is given back twice.
//! - The same limit may have another quota on another node, while a change is rolled out; each
//!   decides by its own.

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
