//! The store: a replica, its bus and its clock behind the contract of shared stores.

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{Ask, Guard, HitItem, SharedStore, StoreReport};
use tollgate::{Error, KeyRef, Limit, Outcome, Timestamp};
use tollgate_remote::Tokio;

use super::builder::Builder;
use super::driver::{self, Shared};
use super::limits::Prepared;
use super::stats::ReplicaStats;
use crate::bus::{Bus, Line};

/// A store that decides in this process for a whole fleet, and synchronizes with the others by
/// messages. Handles are cheap to clone. When the last handle is dropped, the replica sends the
/// other replicas a message that it leaves.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tollgate::Source;
/// use tollgate_cluster::{bus::InMemory, replicated::Replicated};
///
/// let bus = InMemory::new();
/// let (one, other) = (Replicated::builder(bus.clone()).start().await?, Replicated::builder(bus).start().await?);
/// let (here, there) = (one.limiter("2/hour fixed-window")?, other.limiter("2/hour fixed-window")?);
/// here.hit("alice").await?;
/// here.hit("alice").await?;
/// while there.usage("alice").await? < 2 {
///     tokio::time::sleep(std::time::Duration::from_millis(1)).await;
/// }
/// let decision = there.hit("alice").await?;
/// assert_eq!((decision.allowed(), decision.source()), (false, Source::Replica));
/// // The other replica has admitted the whole quota already: nothing is admitted beyond it.
/// assert_eq!(decision.bound(), Some(0));
/// # Ok::<(), tollgate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replicated {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    guard: Guard,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

tollgate::limiters!(Replicated);

impl Replicated {
    /// A builder for a replica on that bus.
    ///
    /// See the example of [`Builder`].
    pub fn builder<B: Bus>(bus: B) -> Builder<B> {
        Builder::new(bus)
    }

    /// Starts the task.
    pub(super) fn run(shared: Shared, line: Line) -> Result<Replicated, Error> {
        let runtime = Tokio::current("a replica")?;
        let shared = Arc::new(shared);
        runtime.spawn(driver::run(Arc::clone(&shared), line));
        let guard = Guard::builder().remember_denials(0).build_on(runtime);
        Ok(Replicated { inner: Arc::new(Inner { shared, guard }) })
    }

    /// Waits until the counts of the peers have been fetched, or no peer answers.
    ///
    /// ```
    /// # async fn example() -> Result<(), tollgate::Error> {
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let replica = Replicated::builder(InMemory::new()).start().await?;
    /// replica.wait_ready().await;
    /// assert!(replica.stats().ready);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_ready(&self) {
        self.inner.shared.wait_ready().await;
    }

    /// Counts, and the present state.
    ///
    /// See the example of [`ReplicaStats`].
    #[must_use]
    pub fn stats(&self) -> ReplicaStats {
        let Shared { replica, .. } = &*self.inner.shared;
        replica.stats(self.inner.shared.now())
    }

    /// Digests of all its counts now. They are equal on replicas with equal counts.
    ///
    /// ```
    /// # async fn example() -> Result<(), tollgate::Error> {
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let replica = Replicated::builder(InMemory::new()).start().await?;
    /// assert_eq!(replica.digests(), [0; 64]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn digests(&self) -> [u64; super::PARTS] {
        self.inner.shared.replica.digests(self.inner.shared.now())
    }

    /// Sends all counts and a message that it leaves to the other replicas, and waits until the
    /// messages are sent. Other handles of this process still decide, but exchange no more counts.
    ///
    /// ```
    /// # async fn example() -> Result<(), tollgate::Error> {
    /// # use tollgate_cluster::{bus::InMemory, replicated::Replicated};
    /// let replica = Replicated::builder(InMemory::new()).start().await?;
    /// replica.leave().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(&self) {
        self.inner.shared.stop.notify_one();
        self.inner.shared.wait_ended().await;
    }

    fn apply(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Outcome {
        let shared = &self.inner.shared;
        let now = at.unwrap_or_else(|| shared.now());
        let decision = shared.replica.apply(prepared, key, op, now);
        shared.changed();
        decision
    }
}

impl SharedStore for Replicated {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        self.inner.shared.replica.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let each = |ask: &Ask<'_, Prepared>| self.apply(ask.prepared, ask.key, ask.op, at);
        ready(Ok(asks.iter().map(each).collect()))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let shared = &self.inner.shared;
        let outcomes = shared.replica.together(hits, at.unwrap_or_else(|| shared.now()));
        shared.changed();
        ready(Ok(outcomes))
    }

    #[inline]
    fn try_now(
        &self,
        prepared: &Prepared,
        key: KeyRef<'_>,
        op: Op,
        at: Option<Timestamp>,
    ) -> Option<Outcome> {
        Some(self.apply(prepared, key, op, at))
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let shared = &self.inner.shared;
        shared.replica.clear(prepared, shared.now());
        shared.changed();
        ready(Ok(()))
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        ready(self.inner.shared.replica.check(self.inner.shared.now()))
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    fn report(&self) -> StoreReport {
        let Shared { replica, .. } = &*self.inner.shared;
        StoreReport {
            figures: self.stats().figures().into(),
            warnings: replica.warnings(self.inner.shared.now()),
            nodes: replica.nodes(self.inner.shared.now()),
        }
    }

    fn leave(&self) -> impl Future<Output = ()> + Send + use<> {
        let replica = self.clone();
        async move { Replicated::leave(&replica).await }
    }
}
