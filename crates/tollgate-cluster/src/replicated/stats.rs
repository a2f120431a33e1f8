//! Statistics of a replica.

use std::time::Duration;

use tollgate::shared::Figure;

use crate::counter::Counter;

/// Counts since the replica was started, and its present state.
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
    /// Present peers.
    pub peers: u64,
    /// Missing nodes.
    pub missing: u64,
    /// The longest silence of a present peer.
    pub lag: Duration,
    /// The largest bound of a decision on any limit now: the units that may have been admitted too
    /// much.
    pub bound: u64,
    /// Keys that are counted.
    pub keys: u64,
    /// Whether the counts of the peers have been fetched.
    pub ready: bool,
    /// Whether the bus is connected.
    pub connected: bool,
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Messages that could not be read, or had another version.
    pub ignored: u64,
    /// Counts that were too far ahead, because a clock is wrong.
    pub ahead: u64,
    /// Counts that were new.
    pub merged: u64,
    /// Parts that differed from a peer's.
    pub mismatched: u64,
    /// Counts of new keys for which there was no room.
    pub no_room: u64,
}

impl ReplicaStats {
    pub(super) fn figures(&self) -> [Figure; 14] {
        let lag = u64::try_from(self.lag.as_micros()).unwrap_or(u64::MAX);
        [
            Figure::gauge("replica_peers", "Present peers.", self.peers),
            Figure::gauge(
                "replica_missing",
                "Nodes that have been silent for too long.",
                self.missing,
            ),
            Figure::gauge(
                "replica_lag_microseconds",
                "The longest silence of a present peer.",
                lag,
            ),
            Figure::gauge(
                "replica_bound_units",
                "The most that may have been admitted beyond any limit.",
                self.bound,
            ),
            Figure::gauge("replica_keys", "Keys that are counted.", self.keys),
            Figure::gauge(
                "replica_ready",
                "1 once the counts of others have been fetched.",
                u64::from(self.ready),
            ),
            Figure::gauge(
                "replica_connected",
                "1 while the bus is connected.",
                u64::from(self.connected),
            ),
            Figure::counter("replica_sent_total", "Messages sent.", self.sent),
            Figure::counter("replica_sent_bytes_total", "Bytes sent.", self.sent_bytes),
            Figure::counter("replica_received_total", "Messages received.", self.received),
            Figure::counter(
                "replica_ignored_total",
                "Messages that could not be read, or were of another version.",
                self.ignored,
            ),
            Figure::counter(
                "replica_ahead_total",
                "Counts that were too far ahead, because a clock is wrong.",
                self.ahead,
            ),
            Figure::counter("replica_merged_total", "Counts of others that were new.", self.merged),
            Figure::counter(
                "replica_mismatched_total",
                "Parts that differed from a peer's and were fetched.",
                self.mismatched,
            ),
        ]
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
