//! The contenders, and how callers drive them.

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

/// The owner of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// tollgate, through a limiter, as users have it.
    Ours,
    /// The least that could be done for a hit: tollgate is compared with this.
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

/// Makes one call. Returns whether it was allowed.
pub(crate) trait Hit: Send + Sync + 'static {
    /// `number` differs in every call. The numbers of one caller are equal modulo the number of
    /// callers.
    fn hit(&self, number: usize, key: &str) -> impl Future<Output = Outcome<bool>> + Send;
}

impl<S: SharedStore> Hit for SharedLimiter<S> {
    async fn hit(&self, _number: usize, key: &str) -> Outcome<bool> {
        Ok(SharedLimiter::hit(self, key).await?.allowed())
    }
}

/// Callers as tasks, for stores that wait on a server.
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

/// A guard with a long deadline: a busy machine must not end calls.
pub(crate) fn patient() -> GuardBuilder {
    Guard::builder().deadline(Duration::from_secs(10))
}
