//! Leases, so that nothing lives for ever.
//!
//! A lease of its own for every key would cost a commit of its own for every hit. So keys share: a write takes the lease that ends first among those
//! that end late enough, unless that is far too late. Else a new one is granted, for twice the time that is needed: it serves who needs as long until half of
//! it is over. So a process has a few leases at a time, one or two for each power of two of the lives in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::{Clock, Error, SystemClock, Timestamp};

use crate::members::Members;
use crate::messages::LeaseGrantRequest;

/// What a new lease has beyond twice the life that is asked for: leases for lives of seconds serve for minutes.
const ROOM: Duration = Duration::from_secs(600);

/// What lives longer, more than a century, has no lease: etcd grants at most 9,000,000,000 seconds.
const LONGEST: Duration = Duration::from_secs(4_000_000_000);

/// Writes under one lease. When it ends, etcd deletes all its keys in one step, and nobody is served meanwhile.
const WRITES: u32 = 10_000;

/// No lease, in requests.
pub(crate) const NONE: i64 = 0;

#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// By when they end at the earliest, by the clock of this process: counted from before they were asked for.
    by_end: Mutex<BTreeMap<Timestamp, Lease>>,
    /// One grant at a time: who comes meanwhile takes what it brings.
    granting: tokio::sync::Mutex<()>,
    clock: SystemClock,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    writes: u32,
}

impl Leases {
    /// A lease that lasts at least for that life, and at most for twice that and a little. Mostly one that is there.
    pub(crate) async fn lasting(
        self: &Arc<Self>,
        members: &Arc<Members>,
        life: Duration,
    ) -> Result<i64, Error> {
        if life > LONGEST {
            return Ok(NONE);
        }
        if let Some(id) = self.take(life) {
            return Ok(id);
        }
        // A caller that walks away lets it end: the next one has it.
        let (leases, members_too) = (Arc::clone(self), Arc::clone(members));
        let grant = async move { leases.grant(&members_too, life).await };
        let granted = members.runtime.spawn(grant).await;
        granted.unwrap_or_else(|error| Err(Error::unavailable(format!("no lease: {error}"))))
    }

    /// One of these has ended before its time: etcd has lost it, and others as well, unless somebody has found that out already.
    pub(crate) fn forget(&self, ids: &[i64]) {
        let mut by_end = self.by_end();
        if by_end.values().any(|lease| ids.contains(&lease.id)) {
            by_end.clear();
        }
    }

    fn take(&self, life: Duration) -> Option<i64> {
        let now = self.clock.now();
        let (first, last) = (now + life, now + longest(life));
        let mut by_end = self.by_end();
        let (_, lease) = by_end.range_mut(first..=last).find(|(_, lease)| lease.writes < WRITES)?;
        lease.writes += 1;
        Some(lease.id)
    }

    async fn grant(&self, members: &Arc<Members>, life: Duration) -> Result<i64, Error> {
        let _one_at_a_time = self.granting.lock().await;
        if let Some(id) = self.take(life) {
            return Ok(id);
        }
        let begin = self.clock.now();
        let seconds = longest(life).as_secs();
        let ttl = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granted = members.send(LeaseGrantRequest { ttl }).await?;
        let end = begin + Duration::from_secs(seconds);
        let mut by_end = self.by_end();
        by_end.retain(|end, _| *end > begin);
        by_end.insert(end, Lease { id: granted.id, writes: 1 });
        Ok(granted.id)
    }

    fn by_end(&self) -> MutexGuard<'_, BTreeMap<Timestamp, Lease>> {
        self.by_end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn longest(life: Duration) -> Duration {
    life * 2 + ROOM
}
