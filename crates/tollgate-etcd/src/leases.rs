//! Leases, so that every key is deleted in the end.
//!
//! A separate lease for every key would cost an additional commit for every hit. So keys share
//! leases: a write takes the lease that ends first among those that end late enough, unless that is
//! more than about twice as late. Otherwise a new one is granted, for one and a half of the time
//! that is needed. It serves keys that need as long until a third of it is over, and windows until
//! half of it is over. So a process has a few leases for each power of two of the lives in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::{Clock, Error, ErrorKind, SystemClock, Timestamp};

use crate::failure::Failure;
use crate::members::Members;
use crate::messages::LeaseGrantRequest;

/// Added to one and a half of the requested life of a new lease, so that leases for lives of
/// seconds serve for a minute.
const ROOM: Duration = Duration::from_secs(60);

/// A lease may last this much longer than twice the requested life.
const MOST_ROOM: Duration = Duration::from_secs(240);

/// A longer life, more than a century, gets no lease: etcd grants at most 9,000,000,000 seconds.
const LONGEST: Duration = Duration::from_secs(4_000_000_000);

/// The most keys under one lease. When it ends, etcd deletes all its keys in one step and serves no
/// requests meanwhile.
const KEYS: u32 = 10_000;

/// The id in requests that means no lease.
pub(crate) const NONE: i64 = 0;

#[derive(Debug, Default)]
pub(crate) struct Leases {
    known: Mutex<LeasesByEnd>,
    /// One grant at a time: callers that arrive meanwhile use its lease.
    granting: tokio::sync::Mutex<()>,
    clock: SystemClock,
}

impl Leases {
    /// A lease that lasts at least for that life, and at most for twice that and five minutes.
    /// Usually an existing one. `on` is the present lease of the key.
    pub(crate) async fn lasting(
        self: &Arc<Self>,
        members: &Arc<Members>,
        life: Duration,
        on: i64,
    ) -> Result<i64, Error> {
        if life > LONGEST {
            return Ok(NONE);
        }
        if let Some(id) = self.known().take(self.clock.now(), life, on) {
            return Ok(id);
        }
        // The grant continues if the caller is dropped, and the next caller uses it.
        let (leases, members_too) = (Arc::clone(self), Arc::clone(members));
        let grant = async move { leases.grant(&members_too, life, on).await };
        let granted = members.runtime.spawn(grant).await;
        granted.unwrap_or_else(|error| Err(Error::unavailable(format!("no lease: {error}"))))
    }

    async fn grant(&self, members: &Arc<Members>, life: Duration, on: i64) -> Result<i64, Error> {
        let _one_at_a_time = self.granting.lock().await;
        let begin = self.clock.now();
        if let Some(id) = self.known().take(begin, life, on) {
            return Ok(id);
        }
        let span = span(life);
        let ttl = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let id = members.send(|| LeaseGrantRequest { ttl }).await.map_err(not_written)?.id;
        self.known().add(begin, span, id);
        Ok(id)
    }

    /// One of these leases has ended before its time: etcd has lost it, and probably others.
    /// Forgets all, unless another caller did that already.
    pub(crate) fn forget(&self, ids: &[i64]) {
        let mut known = self.known();
        if known.0.values().any(|lease| ids.contains(&lease.id)) {
            known.0.clear();
        }
    }

    fn known(&self) -> MutexGuard<'_, LeasesByEnd> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leases by their earliest end on the clock of this process. The life of a lease is counted from a
/// time before it was requested.
#[derive(Debug, Default)]
struct LeasesByEnd(BTreeMap<Timestamp, Lease>);

#[derive(Debug)]
struct Lease {
    id: i64,
    keys: u32,
}

impl LeasesByEnd {
    fn take(&mut self, now: Timestamp, life: Duration, on: i64) -> Option<i64> {
        let (first, last) = (now + life, now + life * 2 + MOST_ROOM);
        let mut leases = self.0.range_mut(first..=last);
        let (_, lease) = leases.find(|(_, lease)| lease.keys < KEYS || lease.id == on)?;
        lease.keys += u32::from(lease.id != on);
        Some(lease.id)
    }

    fn add(&mut self, begin: Timestamp, span: Duration, id: i64) {
        self.0.retain(|end, _| *end > begin);
        self.0.insert(begin + span, Lease { id, keys: 1 });
    }
}

/// The time for which a lease is granted to a caller who needs it for that life, in whole seconds.
fn span(life: Duration) -> Duration {
    Duration::from_secs((life + life / 2 + ROOM).as_secs())
}

/// The grant failed, so the write that needs the lease was not sent.
fn not_written(failure: Failure) -> Error {
    match failure.error.kind() {
        ErrorKind::Lost => Error::unavailable(format!("no lease: {}", failure.error.detail())),
        _ => failure.error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Makes writes of these lives (in seconds) at these times. Returns how many leases were
    /// granted, and how many existed at the same time at most.
    fn granted(writes: impl IntoIterator<Item = (u64, u64)>) -> (usize, usize) {
        let (mut known, mut ends, mut most) = (LeasesByEnd::default(), Vec::new(), 0);
        for (at, life) in writes {
            let (now, life) = (Timestamp::from_micros(at * 1_000_000), Duration::from_secs(life));
            let id = known.take(now, life, NONE).unwrap_or_else(|| {
                ends.push(now + span(life));
                let id = i64::try_from(ends.len()).unwrap();
                known.add(now, span(life), id);
                id
            });
            let left = ends[usize::try_from(id - 1).unwrap()].since(now);
            let most_left = life * 2 + 300 * SECOND;
            assert!((life..=most_left).contains(&left), "{left:?} left for a life of {life:?}");
            most = most.max(ends.iter().filter(|end| **end > now).count());
        }
        (ends.len(), most)
    }

    #[test]
    fn keys_of_equal_life_share_a_lease_for_half_of_it() {
        // One write per second for an hour.
        assert_eq!(granted((0..3_600).map(|at| (at, 60))).0, 40);
        assert_eq!(granted((0..3_600).map(|at| (at, 3_600))).0, 2);
        let (_, most) = granted((0..400_000).step_by(60).map(|at| (at, 24 * 3_600)));
        assert!(most <= 4, "{most} at a time");
    }

    #[test]
    fn a_long_window_needs_few_leases() {
        const YEAR: u64 = 365 * 24 * 3_600;
        let (all, _) = granted((0..YEAR).step_by(3_600).map(|at| (at, YEAR - at)));
        assert!(all <= 25, "{all} leases in a year");
    }

    #[test]
    fn lives_of_all_lengths_share_existing_leases() {
        // The lives are from a second to 36 days, in mixed order.
        let lives = (0..100_000_u64).map(|at| (at, 1 + (at * 7_919 % 100_003).pow(3) % 3_145_728));
        let (_, most) = granted(lives);
        assert!(most <= 60, "{most} at a time");
    }

    #[test]
    fn a_lease_with_many_keys_gets_no_more() {
        let keys = u64::from(KEYS);
        assert_eq!(granted((0..keys * 2 + 1).map(|_| (0, 60))).0, 3);
        // The present lease of a key may stay.
        let (mut known, now) = (LeasesByEnd::default(), Timestamp::EPOCH);
        known.add(now, span(SECOND), 7);
        for _ in 0..KEYS * 2 {
            assert_eq!(known.take(now, SECOND, 7), Some(7));
        }
        assert_eq!(known.0.values().map(|lease| lease.keys).sum::<u32>(), 1);
    }
}
