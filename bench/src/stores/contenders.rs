//! Who takes part, and how callers drive it.

use super::scene::{Scene, spread};
use super::servers::Servers;
use super::{etcd, in_process, memcached, postgres, redis};
use crate::Outcome;
use crate::redis::turn::{Turn, drive};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tollgate::shared::{Guard, GuardBuilder, SharedLimiter, SharedStore};

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Through a limiter, as users have it.
    Ours,
    /// The least that could be done for a hit: what ours is measured by.
    Bare,
    /// The same in another way.
    Other,
}

pub(crate) type Work = Box<dyn Fn(&Runtime, Duration) -> Outcome<Turn>>;

pub(crate) struct Contender {
    pub(crate) store: &'static str,
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
    pub(crate) scene: Scene,
    pub(crate) work: Work,
}

/// All of them, in the order of the tables.
pub(crate) fn all(servers: &Servers, runtime: &Runtime) -> Outcome<Vec<Contender>> {
    let mut all = in_process::contenders(servers)?;
    all.extend(redis::contenders(servers, runtime)?);
    all.extend(memcached::contenders(servers, runtime)?);
    all.extend(postgres::contenders(servers, runtime)?);
    all.extend(etcd::contenders(servers, runtime)?);
    Ok(all)
}

/// One call; true if it was allowed.
pub(crate) trait Hit: Send + Sync + 'static {
    /// `number` is different in every call, and of one caller the same modulo the number of
    /// callers.
    fn hit(&self, number: usize, key: &str) -> impl Future<Output = Outcome<bool>> + Send;
}

impl<S: SharedStore> Hit for SharedLimiter<S> {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        Ok(SharedLimiter::hit(self, key).await?.allowed())
    }
}

/// Callers as tasks: for what waits on a server.
pub(crate) fn tasks(scene: Scene, hit: impl Hit) -> Work {
    let shared = Arc::new((hit, scene.subjects()));
    Box::new(move |runtime, span| {
        let shared = Arc::clone(&shared);
        let hit = move |number| {
            let shared = Arc::clone(&shared);
            async move {
                let (hit, keys) = &*shared;
                hit.hit(number, &keys[spread(number, keys.len())]).await
            }
        };
        runtime.block_on(drive(scene.callers, span, hit))
    })
}

/// Deadlines are far: a busy machine must not end calls.
pub(crate) fn patient() -> GuardBuilder {
    Guard::builder().deadline(Duration::from_secs(10))
}
