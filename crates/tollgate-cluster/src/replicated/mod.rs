//! Counters that every node keeps for itself and synchronizes by messages.
//!
//! [`Replicated`] decides in this process, without a store. Every node counts what it has admitted
//! and sends its counts to the others over a [`bus`](crate::bus); each decides on the sum of all
//! counts that it has. Counts are cumulative and merge by maximum, so messages may be lost,
//! duplicated and late. A new node asks for all counts. A node that was cut off agrees with the
//! others again within seconds of its return.
//!
//! # What may be admitted beyond the limit
//!
//! A node decides on all units except those that it does not know. Let `L` be the limit (of a
//! bucket, its burst), `D` the longest time for which a count stayed undelivered, and `A(x)` the
//! most units that all nodes are offered in any span `x`. At most the smallest of these is admitted
//! too much:
//!
//! - `A(D)`, where `D` is the flush interval and the delay of a message as long as none is lost,
//!   and at most the time to the next comparison while nodes are connected;
//! - `(S-1) L`, where `S` is the number of process starts that have served what counts;
//! - while the nodes are split into `G` groups, `(G-1) L` and what each group adds by its own `D`.
//!
//! In the first and the last case, add the units that a crashed process admitted before it sent
//! them. For a bucket this bounds its level: in any span it admits at most that much more than its
//! burst and its rate allow, as long as counts arrive within the time in which it drains, and
//! within a second.
//!
//! Windows follow the clocks of the nodes. Clocks that are wrong by `e` add up to `2 A(e)` to a
//! window of true time, `A(2e)` to a moving window, and what flows back in `2e` to a bucket. Nodes
//! must agree on the time of day to well below the period. Counts more than ten seconds ahead are
//! ignored, and counted in [`ReplicaStats::ahead`]. [`SystemClock`](tollgate::SystemClock), the
//! default clock, is the time of day at the start of the process plus the time that has passed
//! since: a wrong date stays wrong until the process is restarted. Suspended time counts on Linux;
//! elsewhere a machine that was suspended may be behind.
//!
//! Each decision carries the bound as its node knows it, by the second of these rules and, where
//! [`peak`](Builder::peak) is set, by the first.
//!
//! # What differs from other stores
//!
//! - Limits whose counts do not merge are refused: elastic windows, windows that start with a key's
//!   first hit, `charge_denied`. Sliding windows are aligned to the clock.
//! - After counts of other nodes have arrived, a moving window and a bucket treat a unit as up to
//!   one slot younger than it is, about a fiftieth of the period. So they may admit a little later,
//!   and never more.
//! - A refund gives back at most what this node itself has counted in that slot, so send it to the
//!   node that admitted the hit. `set` and `reset` forget all counts that this node knows. What
//!   others admit at the same time stays, and a refund that crosses a reset is given back twice.
//! - While a change is rolled out, the same limit may have another quota on another node; each node
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

use tollgate::keyed::lock;
