//! Gives back allotments that have ended or are idle.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tollgate::OwnedKey;
use tollgate::shared::{Runtime, SharedStore};

use super::holding::Unspent;
use super::table::Entry;
use super::{Inner, Lease, Leased};

/// The interval between sweeps, in parts of the longest life.
const LOOKS: u32 = 4;

/// The shortest interval between sweeps.
const SHORTEST: Duration = Duration::from_millis(10);

/// The most keys for which units are given back concurrently.
const AT_ONCE: usize = 64;

type Collected<S> = (Arc<Lease<S>>, OwnedKey, Vec<Unspent>);

impl<S: SharedStore> Leased<S> {
    /// Gives back allotments that have ended or are idle, or all of them.
    pub(super) async fn give_back(&self, all: bool) {
        let calls = stream::iter(self.collect(all));
        let give_back = async |(lease, key, unspent): Collected<S>| {
            self.call(&lease, key.as_key_ref()).give_back(unspent).await;
        };
        calls.for_each_concurrent(AT_ONCE, give_back).await;
    }

    /// Makes sure that a task sweeps.
    pub(super) fn look_after(&self) {
        if self.inner.swept.swap(true, Ordering::SeqCst) {
            return;
        }
        let runtime = self.inner.guard.runtime();
        let pause = (self.inner.longest / LOOKS).max(SHORTEST);
        let weak = Arc::downgrade(&self.inner);
        runtime.spawn(Box::pin(look(weak, Arc::clone(runtime), pause)));
    }

    /// Collects units that are unspent and have ended or are idle, or all of them. Removes queues
    /// that are not needed any more.
    fn collect(&self, all: bool) -> Vec<Collected<S>> {
        let leases = self.inner.leases_in_use();
        let now = self.inner.clock.now();
        let mut collected = Vec::new();
        let (mut held, mut largest) = (0_u64, 0);
        self.inner.table.sweep(|entry| {
            let Entry { limit, key, queue, .. } = entry;
            let busy = queue.holding.drawing || !queue.waiters.is_empty();
            let idle = !std::mem::take(&mut queue.holding.used) && !busy;
            let unspent = queue.holding.surrender(now, idle || all);
            let left = queue.holding.left(now);
            held = held.saturating_add(left);
            largest = largest.max(left);
            if let Some(lease) = leases.get(limit) {
                let unspent = self.inner.useful(lease, unspent);
                if !unspent.is_empty() {
                    collected.push((Arc::clone(lease), key.clone(), unspent));
                }
            }
            busy || !queue.holding.is_idle(now)
        });
        self.inner.counters.hold(held, largest);
        collected
    }
}

impl<S: SharedStore> Inner<S> {
    /// All limits in use, by their numbers. Forgets the others.
    fn leases_in_use(&self) -> HashMap<usize, Arc<Lease<S>>> {
        let mut leases = self.leases();
        leases.forget_unused();
        leases.by_name.values().map(|lease| (lease.number, Arc::clone(lease))).collect()
    }

    /// The units that the store can still use. The others are counted as ended.
    pub(super) fn useful(&self, lease: &Lease<S>, unspent: Vec<Unspent>) -> Vec<Unspent> {
        let useful = |unspent: &Unspent| lease.terms.can_give_back(unspent);
        let (useful, ended): (Vec<_>, Vec<_>) = unspent.into_iter().partition(useful);
        self.counters.ended.add(ended.iter().map(|unspent| unspent.units).sum());
        useful
    }
}

/// Sweeps at intervals as long as there are queues.
async fn look<S: SharedStore>(weak: Weak<Inner<S>>, runtime: Arc<dyn Runtime>, pause: Duration) {
    loop {
        runtime.sleep(pause).await;
        let Some(inner) = weak.upgrade() else { return };
        let leased = Leased { inner };
        leased.give_back(false).await;
        let Inner { table, swept, .. } = &*leased.inner;
        if table.len() == 0 {
            swept.store(false, Ordering::SeqCst);
            // A caller that opened a queue meanwhile relied on this task.
            if table.len() == 0 || swept.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}
