//! [`SharedStore`] on top of [`Cells`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::algorithm::{Act, AnyMachine, Op};
use tollgate::shared::{Ask, Guard, HitItem, SharedStore, StoreReport, try_write};
use tollgate::{Clock, Error, ErrorKind, KeyRef, Limit, Outcome, Timestamp};
use tollgate_remote::{InlineWorker, Queue};

use crate::cells::{Cells, Name};
use crate::job::{CellCall, Job, Prepared};
use crate::{Cas, Inner, batch, group_hit};

/// A job that was enqueued and has no reply yet.
pub(crate) struct PendingReply {
    reply: oneshot::Receiver<Result<Vec<Outcome>, Error>>,
    /// The worker, if this caller polls it.
    worker: Option<InlineWorker>,
}

/// The time to decide at, if it is not the store's, and the time at which the caller stops waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) at: Option<Timestamp>,
    pub(crate) deadline: Option<Timestamp>,
}

impl<C: Cells> Inner<C> {
    fn times(&self, at: Option<Timestamp>, deadline: Duration) -> Times {
        Times { at, deadline: Some(self.process_clock.now() + deadline) }
    }

    /// Enqueues a job for these cells. `inline`: the caller awaits this reply and no other, so it
    /// may poll the worker itself.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        names: Arc<[Name]>,
        calls: Vec<CellCall>,
        times: Times,
        inline: bool,
    ) -> PendingReply {
        let (reply, pending) = oneshot::channel();
        // Workers of overlapping queues wait for each other's cell locks. A caller that holds such
        // locks and is not polled would block the others, so those workers are always tasks.
        let inline = inline && !self.locks.overlap();
        let Times { at, deadline } = times;
        let job = Job { calls, at, deadline, reply };
        let name = Arc::clone(&names);
        let serve = |queue| serve(Arc::clone(self), names, queue);
        let worker = self.queues.push(name, job, inline, serve);
        PendingReply { reply: pending, worker }
    }

    /// Makes independent calls, one per cell, enqueued in order.
    pub(crate) async fn call_each(
        self: &Arc<Self>,
        calls: impl IntoIterator<Item = (Name, CellCall)>,
        times: Times,
    ) -> Vec<Result<Outcome, Error>> {
        let enqueue = |(name, call)| self.enqueue(Arc::new([name]), vec![call], times, false);
        let pending: Vec<PendingReply> = calls.into_iter().map(enqueue).collect();
        let mut answers = Vec::with_capacity(pending.len());
        for pending in pending {
            let decisions = pending.wait().await;
            answers.push(decisions.and_then(|decisions| {
                let one = decisions.first().copied();
                one.ok_or_else(|| Error::store("no decision", false))
            }));
        }
        answers
    }

    pub(crate) async fn forget(&self, place: &[u8]) -> Result<(), Error> {
        let forgotten = self.cells.forget(place).await;
        self.cache.clear();
        forgotten
    }

    fn call(&self, prepared: &Prepared, key: KeyRef<'_>, op: Op) -> (Name, CellCall) {
        let name = Name::new(self.cells.name(&prepared.place, key), self.cells.lane(key));
        (name, CellCall { machine: Arc::clone(&prepared.machine), act: Act::Op(op) })
    }
}

/// Decides the jobs of a queue, batch after batch, until none waits.
async fn serve<C: Cells>(
    inner: Arc<Inner<C>>,
    names: Arc<[Name]>,
    mut queue: Queue<Arc<[Name]>, Job>,
) {
    loop {
        let _locked = inner.locks.lock(&names).await;
        let Some(jobs) = queue.take(usize::MAX) else { return };
        batch::decide(&inner, &names, jobs).await;
    }
}

impl PendingReply {
    pub(crate) async fn wait(self) -> Result<Vec<Outcome>, Error> {
        if let Some(worker) = &self.worker {
            worker.run().await;
        }
        let runtime_ended = |_| Err(Error::lost("the runtime of the store has ended"));
        self.reply.await.unwrap_or_else(runtime_ended)
    }
}

/// All decisions, or the first error. If some calls were executed, or may have been, the error is
/// not [`ErrorKind::Unavailable`], which would say that nothing was executed.
pub(crate) fn all_or_error(answers: Vec<Result<Outcome, Error>>) -> Result<Vec<Outcome>, Error> {
    let not_executed = |e: &Error| e.kind() == ErrorKind::Unavailable;
    let some_executed = answers.iter().any(|answer| !answer.as_ref().is_err_and(not_executed));
    let partly_executed = |error: Error| {
        if some_executed && not_executed(&error) {
            let cause = error.detail();
            return Error::lost(format!("some keys were decided, others not: {cause}"));
        }
        error
    };
    answers.into_iter().map(|answer| answer.map_err(partly_executed)).collect()
}

impl<C: Cells> SharedStore for Cas<C> {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        tollgate::hold::refuse_slots(limit, "a store with compare-and-swap")?;
        self.inner.cells.holds(limit)?;
        let place = self.inner.cells.place(namespace, Some(limit)).into();
        Ok(Prepared { place, machine: Arc::new(AnyMachine::new(limit)) })
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<C> {
        let times = self.inner.times(at, deadline);
        let call = |ask: &Ask<'_, Prepared>| self.inner.call(ask.prepared, ask.key, ask.op);
        let mut calls: Vec<(Name, CellCall)> = asks.iter().map(call).collect();
        let inner = Arc::clone(&self.inner);
        async move {
            if calls.len() > 1 {
                return all_or_error(inner.call_each(calls, times).await);
            }
            let Some((name, call)) = calls.pop() else { return Ok(Vec::new()) };
            inner.enqueue(Arc::new([name]), vec![call], times, true).wait().await
        }
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<C> {
        let times = self.inner.times(at, deadline);
        let call =
            |hit: &HitItem<'_, Prepared>| self.inner.call(hit.prepared, hit.key, Op::Hit(hit.cost));
        let calls: Vec<(Name, CellCall)> = hits.iter().map(call).collect();
        let inner = Arc::clone(&self.inner);
        async move {
            if calls.is_empty() {
                return Ok(Vec::new());
            }
            if !C::TOGETHER && calls.len() > 1 {
                return group_hit::hit(inner, calls, times).await;
            }
            let (names, calls): (Vec<Name>, Vec<CellCall>) = calls.into_iter().unzip();
            inner.enqueue(names.into(), calls, times, true).wait().await
        }
    }

    fn clear(
        &self,
        prepared: &Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<C> {
        let (inner, place) = (Arc::clone(&self.inner), Arc::clone(&prepared.place));
        async move { inner.forget(&place).await }
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    fn lane(&self, _prepared: &Prepared, key: KeyRef<'_>) -> usize {
        self.inner.cells.lane(key)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<C> {
        let (inner, write) = (Arc::clone(&self.inner), try_write(self));
        async move {
            inner.cells.check().await?;
            write.await
        }
    }

    fn report(&self) -> StoreReport {
        StoreReport { figures: self.inner.clock.figures(), ..StoreReport::default() }
    }
}
