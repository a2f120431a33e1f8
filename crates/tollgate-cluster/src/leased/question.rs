//! Operations that the allotments of this node cannot answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate::algorithm::Op;
use tollgate::shared::{Ask, SharedStore};
use tollgate::{Error, Outcome, OwnedKey, Source};

use super::table::{Desk, Spot};
use super::wish::{Waiting, Wish};
use super::{Inner, Lease, Leased};

/// An operation on one key of one limit, with all that a future needs to answer it.
#[derive(Debug)]
pub(super) struct Question<S: SharedStore> {
    pub(super) leased: Leased<S>,
    pub(super) lease: Arc<Lease<S>>,
    pub(super) key: OwnedKey,
}

impl<S: SharedStore> Question<S> {
    pub(super) fn inner(&self) -> &Inner<S> {
        &self.leased.inner
    }

    pub(super) fn spot(&self) -> Spot<'_> {
        Spot { limit: self.lease.number, key: self.key.as_key_ref() }
    }

    /// Answers one operation, however long it takes.
    pub(super) async fn answer(&self, op: Op, deadline: Duration) -> Result<Outcome, Error> {
        if let Some(decision) = self.leased.in_hand(&self.lease, self.key.as_key_ref(), op) {
            return Ok(decision);
        }
        match op {
            Op::Hit(units) if self.lease.can_lease(units) => {
                self.wait_for(Wish::Hit(units), deadline).await
            }
            Op::Take(units) if self.lease.can_lease(units) => {
                self.wait_for(Wish::Take(units), deadline).await
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
    pub(super) async fn wait_for(&self, wish: Wish, deadline: Duration) -> Result<Outcome, Error> {
        let (tell, told) = oneshot::channel();
        let ask = |desk: &mut Desk| {
            // A draw may have ended meanwhile.
            let now = self.inner().clock.now();
            if let Some((decision, low)) = desk.ask(&self.lease.terms, now, wish) {
                return (Some(decision), low);
            }
            desk.waiting.push_back(Waiting { wish, tell });
            (None, !std::mem::replace(&mut desk.holding.drawing, true))
        };
        let Inner { table, .. } = self.inner();
        let Some((decision, draw)) = table.open(self.spot(), &self.lease.desks, ask) else {
            return self.exactly(wish, deadline).await;
        };
        if draw {
            self.begin();
        }
        if let Some(decision) = decision {
            return Ok(decision);
        }
        told.await.unwrap_or_else(|_| Err(Error::unavailable("the draw was given up")))
    }

    /// There is no room for this key, so the store decides.
    async fn exactly(&self, wish: Wish, deadline: Duration) -> Result<Outcome, Error> {
        let op = match wish {
            Wish::Hit(units) => Op::Hit(units),
            Wish::Take(units) => Op::Take(units),
            Wish::Fetch(units) => Op::Peek(units),
        };
        self.pass_on(op, deadline).await
    }

    async fn pass_on(&self, op: Op, deadline: Duration) -> Result<Outcome, Error> {
        let ask = Ask { prepared: &self.lease.prepared, key: self.key.as_key_ref(), op };
        let asked = self.inner().store.ask_each(&[ask], None, deadline);
        let decisions = asked.await?;
        let none = || Error::store("no decision for one question", false);
        decisions.first().copied().ok_or_else(none)
    }
}
