//! The contract of tollgate, on cells.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::algorithm::{AnyMachine, Op};
use tollgate::shared::{Ask, Figure, Guard, Mode, SharedStore, try_write};
use tollgate::{Decision, Error, ErrorKind, KeyRef, Limit, Timestamp};

use crate::act::{Act, Job, Part, Prepared};
use crate::cells::{Cells, Name};
use crate::desk::Put;
use crate::lead::{Lead, Leading};
use crate::{Cas, Inner, one_by_one, round};

/// An answer that is awaited.
pub(crate) struct Pending {
    answer: oneshot::Receiver<Result<Vec<Decision>, Error>>,
    leading: Option<Leading>,
}

impl<C: Cells> Inner<C> {
    /// Brings a job to the desk of these cells. A caller who is going to wait for this answer and
    /// no other may lead.
    pub(crate) fn send(
        self: &Arc<Self>,
        names: Arc<[Name]>,
        parts: Vec<Part>,
        at: Option<Timestamp>,
        may_lead: bool,
    ) -> Pending {
        let (answer, pending) = oneshot::channel();
        // Who leads holds locks, and nobody who waits for those could make a task of it.
        let may_lead = may_lead && !self.desks.overlap();
        let lead = || may_lead.then(|| Lead::new(&self.runtime));
        let mut leading = None;
        if let Put::Opened(lead) = self.desks.put(&names, Job { parts, at, answer }, lead) {
            let work = Work { inner: Arc::clone(self), names, closed: false };
            let work = work.until_nothing_waits();
            match lead {
                Some(lead) => {
                    lead.begin(work);
                    leading = Some(Leading(lead));
                }
                None => drop(self.runtime.spawn(work)),
            }
        }
        Pending { answer: pending, leading }
    }

    /// One part on each cell, each on its own, begun in order.
    pub(crate) async fn each(
        self: &Arc<Self>,
        parts: impl IntoIterator<Item = (Name, Part)>,
        at: Option<Timestamp>,
    ) -> Vec<Result<Decision, Error>> {
        let send = |(name, part)| self.send(Arc::new([name]), vec![part], at, false);
        let pending: Vec<Pending> = parts.into_iter().map(send).collect();
        let mut answers = Vec::with_capacity(pending.len());
        for pending in pending {
            let decisions = answer(pending).await;
            answers.push(decisions.and_then(|decisions| {
                let one = decisions.first().copied();
                one.ok_or_else(|| Error::store("no decision", false))
            }));
        }
        answers
    }

    pub(crate) async fn forget(&self, place: &[u8]) -> Result<(), Error> {
        let forgotten = self.cells.forget(place).await;
        self.memory.clear();
        forgotten
    }

    fn part(&self, prepared: &Prepared, key: KeyRef<'_>, act: Act) -> (Name, Part) {
        let name = Name::new(self.cells.name(&prepared.place, key), self.cells.lane(key));
        (name, Part { machine: Arc::clone(&prepared.machine), act })
    }
}

/// The work at a desk.
struct Work<C: Cells> {
    inner: Arc<Inner<C>>,
    names: Arc<[Name]>,
    closed: bool,
}

impl<C: Cells> Work<C> {
    async fn until_nothing_waits(mut self) {
        let (inner, names) = (Arc::clone(&self.inner), Arc::clone(&self.names));
        loop {
            let _held = inner.desks.hold(&names).await;
            let jobs = inner.desks.take(&names);
            if jobs.is_empty() {
                // Somebody else may have opened it again.
                self.closed = true;
                return;
            }
            round::round(&inner, &names, jobs).await;
        }
    }
}

impl<C: Cells> Drop for Work<C> {
    /// With its runtime, before its end.
    fn drop(&mut self) {
        if !self.closed {
            self.inner.desks.close(&self.names);
        }
    }
}

pub(crate) async fn answer(pending: Pending) -> Result<Vec<Decision>, Error> {
    if let Some(leading) = &pending.leading {
        leading.lead().await;
    }
    let gone = |_| Err(Error::lost("the runtime of the store has ended"));
    pending.answer.await.unwrap_or_else(gone)
}

/// The decisions, or the error of the whole: where some were executed, or may have been, none of it
/// is [`ErrorKind::Unavailable`].
pub(crate) fn all(answers: Vec<Result<Decision, Error>>) -> Result<Vec<Decision>, Error> {
    let surely_not = |e: &Error| e.kind() == ErrorKind::Unavailable;
    let executed = answers.iter().any(|answer| !answer.as_ref().is_err_and(surely_not));
    let in_part = |error: Error| {
        if executed && surely_not(&error) {
            let what = error.detail();
            return Error::lost(format!("some keys were decided, others not: {what}"));
        }
        error
    };
    answers.into_iter().map(|answer| answer.map_err(in_part)).collect()
}

impl<C: Cells> SharedStore for Cas<C> {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        self.inner.cells.holds(limit)?;
        let place = self.inner.cells.place(namespace, Some(limit)).into();
        Ok(Prepared { place, machine: Arc::new(AnyMachine::new(limit)) })
    }

    fn ask(
        &self,
        asks: &[Ask<'_, Prepared>],
        mode: Mode,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<Vec<Decision>, Error>> + Send + use<C> {
        let part =
            |ask: &Ask<'_, Prepared>| self.inner.part(ask.prepared, ask.key, Act::Op(ask.op));
        let mut parts: Vec<(Name, Part)> = asks.iter().map(part).collect();
        let not_hit = asks.iter().find(|ask| !matches!(ask.op, Op::Hit(_)));
        let wrong = not_hit.filter(|_| mode == Mode::Together).map(|ask| ask.op);
        let inner = Arc::clone(&self.inner);
        async move {
            if let Some(op) = wrong {
                return Err(Error::request(format!("{op:?}: only hits go together")));
            }
            match mode {
                _ if parts.len() == 1 => {
                    let Some((name, part)) = parts.pop() else { return Ok(Vec::new()) };
                    answer(inner.send(Arc::new([name]), vec![part], at, true)).await
                }
                Mode::Each => all(inner.each(parts, at).await),
                Mode::Together if parts.is_empty() => Ok(Vec::new()),
                Mode::Together if C::TOGETHER => {
                    let (names, parts): (Vec<Name>, Vec<Part>) = parts.into_iter().unzip();
                    answer(inner.send(names.into(), parts, at, true)).await
                }
                Mode::Together => one_by_one::hit(inner, parts, at).await,
            }
        }
    }

    fn reset(
        &self,
        prepared: &[Prepared],
        key: KeyRef<'_>,
        at: Option<Timestamp>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<C> {
        let part = |prepared| self.inner.part(prepared, key, Act::Reset);
        let parts: Vec<(Name, Part)> = prepared.iter().map(part).collect();
        let inner = Arc::clone(&self.inner);
        async move {
            let was = all(inner.each(parts, at).await)?;
            Ok(was.iter().any(|decision| decision.expires_at().is_some()))
        }
    }

    fn clear(
        &self,
        prepared: &Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<C> {
        let (inner, place) = (Arc::clone(&self.inner), Arc::clone(&prepared.place));
        async move { inner.forget(&place).await }
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<C> {
        let (inner, written) = (Arc::clone(&self.inner), try_write(self));
        async move {
            inner.cells.check().await?;
            written.await
        }
    }

    fn same_counter(&self, a: &Prepared, b: &Prepared) -> bool {
        a.place == b.place
    }

    fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    fn lane(&self, _prepared: &Prepared, key: KeyRef<'_>) -> usize {
        self.inner.cells.lane(key)
    }

    fn suspect(&self) {
        self.inner.cells.suspect();
    }

    fn figures(&self) -> Vec<Figure> {
        self.inner.clock.figures()
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<C> {
        self.inner.sleep(span)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.runtime.spawn(task);
    }
}
