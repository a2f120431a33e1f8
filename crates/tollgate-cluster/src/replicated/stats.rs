//! What a replica has done, as numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a replica has done since it was started, and how it stands.
///
/// ```
/// # async fn example() -> Result<(), tollgate::Error> {
/// use tollgate_cluster::{bus::InMemory, replicated::Replicated};
/// let replica = Replicated::builder(InMemory::new()).start().await?;
/// assert_eq!(replica.stats().peers, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaStats {
    /// Peers that are here.
    pub peers: u64,
    /// Peers that were here and have been silent for too long.
    pub missing: u64,
    /// The longest silence of a peer that is here.
    pub lag: Duration,
    /// The largest bound of a decision on any limit now: what may have been admitted beyond it.
    pub bound: u64,
    /// Keys that are counted.
    pub keys: u64,
    /// Whether the counts of those who were there before have been fetched.
    pub ready: bool,
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Messages that could not be read, or were of another version.
    pub ignored: u64,
    /// Counts that lay too far ahead: somebody's clock is wrong.
    pub ahead: u64,
    /// Counts that were new.
    pub merged: u64,
    /// Parts that differed from a peer's.
    pub mismatched: u64,
    /// Counts of new keys that found no room.
    pub no_room: u64,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters behind [`ReplicaStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) received: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) ignored: Counter,
    pub(crate) ahead: Counter,
    pub(crate) merged: Counter,
    pub(crate) mismatched: Counter,
    pub(crate) no_room: Counter,
}
