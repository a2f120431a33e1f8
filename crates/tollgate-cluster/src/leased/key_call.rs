//! Operations that the allotments of this node cannot answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::algorithm::Op;
use tollgate::shared::{Ask, SharedStore};
use tollgate::{Error, Outcome, OwnedKey, Source};

use super::table::{CounterKey, KeyQueue};
use super::waiter::{Demand, Waiter};
use super::{Inner, Lease, Leased};

/// An operation on one key of one limit, with all that a future needs to answer it.
#[derive(Debug)]
pub(super) struct KeyCall<S: SharedStore> {
    pub(super) leased: Leased<S>,
    pub(super) lease: Arc<Lease<S>>,
    pub(super) key: OwnedKey,
}

impl<S: SharedStore> KeyCall<S> {
    pub(super) fn inner(&self) -> &Inner<S> {
        &self.leased.inner
    }

    pub(super) fn counter(&self) -> CounterKey<'_> {
        CounterKey { limit: self.lease.number, key: self.key.as_key_ref() }
    }

    /// Answers one operation, however long it takes.
    pub(super) async fn answer(&self, op: Op, deadline: Duration) -> Result<Outcome, Error> {
        if let Some(decision) = self.leased.try_allotments(&self.lease, self.key.as_key_ref(), op) {
            return Ok(decision);
        }
        match op {
            Op::Hit(units) if self.lease.can_lease(units) => {
                self.wait_for(Demand::Hit(units), deadline).await
            }
            Op::Take(units) if self.lease.can_lease(units) => {
                self.wait_for(Demand::Take(units), deadline).await
            }
            Op::Refund(receipt) if receipt.source == Source::Lease => {
                self.pass_on(Op::Refund(self.lease.terms.receipt(&receipt)), deadline).await
            }
            Op::Set(_) | Op::Reset => {
                self.leased.forget(&self.lease, self.key.as_key_ref());
                self.pass_on(op, deadline).await
            }
            _ => self.pass_on(op, deadline).await,
        }
    }

    /// Waits for a draw; starts one if none is in progress.
    pub(super) async fn wait_for(
        &self,
        demand: Demand,
        deadline: Duration,
    ) -> Result<Outcome, Error> {
        let (reply, answer) = oneshot::channel();
        let ask = |queue: &mut KeyQueue| {
            // A draw may have ended meanwhile.
            let now = self.inner().clock.now();
            if let Some((decision, low)) = queue.ask(&self.lease.terms, now, demand) {
                return (Some(decision), low);
            }
            queue.waiters.push_back(Waiter { demand, reply });
            (None, !std::mem::replace(&mut queue.holding.drawing, true))
        };
        let Inner { table, .. } = self.inner();
        let Some((decision, draw)) = table.open(self.counter(), &self.lease.queues, ask) else {
            return self.exactly(demand, deadline).await;
        };
        if draw {
            self.begin();
        }
        if let Some(decision) = decision {
            return Ok(decision);
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the draw was given up")))
    }

    /// There is no room for this key, so the store decides.
    async fn exactly(&self, demand: Demand, deadline: Duration) -> Result<Outcome, Error> {
        let op = match demand {
            Demand::Hit(units) => Op::Hit(units),
            Demand::Take(units) => Op::Take(units),
            Demand::Fetch(units) => Op::Peek(units),
        };
        self.pass_on(op, deadline).await
    }

    async fn pass_on(&self, op: Op, deadline: Duration) -> Result<Outcome, Error> {
        let ask = Ask { prepared: &self.lease.prepared, key: self.key.as_key_ref(), op };
        let asked = self.inner().store.ask_each(&[ask], None, deadline);
        let decisions = asked.await?;
        let none = || Error::store("no decision for one call", false);
        decisions.first().copied().ok_or_else(none)
    }
}
