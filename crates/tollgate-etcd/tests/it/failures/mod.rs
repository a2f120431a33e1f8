//! Failures of members. In each case: no panic, no call hangs past its deadline, the chosen rule
//! applies, and with a healthy store never more is admitted than the limit.

mod compaction;
mod connecting;
mod cut;
mod frozen;
mod login;
mod overload;
mod quorum;
mod quota;
mod restart;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinHandle;
use tollgate::shared::SharedLimiter;
use tollgate::{Decision, Source};
use tollgate_etcd::Etcd;

use crate::client::in_time;

/// Callers that hit one key until they are stopped, whatever happens.
struct Load {
    passed: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    fn on(limiter: &SharedLimiter<Etcd>, key: &'static str, callers: usize) -> Load {
        let (passed, ended) = (Arc::default(), Arc::default());
        let caller = |_| {
            let (passed, ended) = (Arc::clone(&passed), Arc::clone(&ended));
            tokio::spawn(hit_until(limiter.clone(), key, passed, ended))
        };
        let callers = (0..callers).map(caller).collect();
        Load { passed, ended, callers }
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Stops the callers. Returns the number of admitted hits.
    async fn end(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
        self.passed.load(Ordering::Relaxed)
    }
}

async fn hit_until(
    limiter: SharedLimiter<Etcd>,
    key: &'static str,
    passed: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
) {
    let from_the_store = |hit: &Decision| hit.allowed() && hit.source() == Source::Store;
    while !ended.load(Ordering::Relaxed) {
        let hit = in_time(limiter.hit(key)).await;
        passed.fetch_add(u64::from(hit.as_ref().is_ok_and(from_the_store)), Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}
