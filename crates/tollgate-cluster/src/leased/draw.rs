//! Draws: one at a time for a key, for all waiting callers, in a spawned task that no caller can
//! cancel.

use tollgate::shared::SharedStore;
use tollgate::{Error, Outcome, Receipt, Timestamp};

use super::holding::Unspent;
use super::key_call::KeyCall;
use super::planted::{Fault, planted};
use super::waiter::Draw;

impl<S: SharedStore> KeyCall<S> {
    /// Starts to draw. The queue is already marked as drawing.
    pub(super) fn draw(self) {
        let store = self.inner().store.clone();
        self.leased.look_after();
        let drawing = Drawing { call: self, at_work: true };
        store.guard().runtime().spawn(Box::pin(drawing.until_nobody_waits()));
    }

    /// Starts to draw with a copy of this call, which [`draw`](KeyCall::draw) would consume.
    pub(super) fn begin(&self) {
        self.leased.call(&self.lease, self.key.as_key_ref()).draw();
    }

    /// Gives back units that will not be spent, with the receipt of their draw. The store gives
    /// back no more than what is left of that draw.
    pub(super) async fn give_back(&self, unspent: Vec<Unspent>) {
        let counters = &self.inner().counters;
        for Unspent { units, draw, .. } in unspent {
            let receipt = Receipt { units, ..draw };
            let given_back = if planted(Fault::GivenBackToNow) {
                self.lease.limiter.refund_n(&self.key, units).await
            } else {
                self.lease.limiter.refund_receipts(&self.key, &[receipt]).await
            };
            match given_back {
                Ok(_) => counters.given_back.add(units),
                Err(error) => {
                    counters.ended.add(units);
                    tracing::debug!(%error, units, "unspent units could not be given back");
                }
            }
        }
    }
}

/// A draw in progress. If it is dropped before its end, as when a runtime shuts down, another
/// caller may draw.
struct Drawing<S: SharedStore> {
    call: KeyCall<S>,
    /// False once the queue is marked as not drawing: from then on another task may draw.
    at_work: bool,
}

impl<S: SharedStore> Drawing<S> {
    async fn until_nobody_waits(mut self) {
        while self.draw_once().await {}
        self.at_work = false;
    }

    /// Draws once. True if another draw is needed.
    async fn draw_once(&self) -> bool {
        let call = &self.call;
        let (inner, lease) = (call.inner(), &call.lease);
        let next = inner.table.find(call.counter(), |queue| {
            queue.next_draw(&lease.terms, inner.nodes, inner.clock.now())
        });
        let Some((draw, waited)) = next else { return false };
        // Read before the draw is sent: the life of the allotment is counted from here.
        let sent = inner.clock.now();
        let answer = match draw {
            Draw::Any(units) => lease.limiter.take(&call.key, units).await,
            Draw::Whole(units) => lease.limiter.hit_n(&call.key, units).await,
        };
        match &answer {
            Ok(decision) => {
                inner.counters.draws.add(1);
                inner.counters.drawn.add(decision.charged());
            }
            Err(_) => inner.counters.failed.add(1),
        }
        self.settle((draw, waited), sent, answer.map(|decision| *decision.headline()))
    }

    /// Adds the drawn units to the allotments and answers waiting callers. True if another draw is
    /// needed.
    fn settle(
        &self,
        (draw, waited): (Draw, usize),
        sent: Timestamp,
        answer: Result<Outcome, Error>,
    ) -> bool {
        let call = &self.call;
        let (inner, terms) = (call.inner(), &call.lease.terms);
        let now = inner.clock.now();
        let sent = if planted(Fault::CountedFromAnswer) { now } else { sent };
        let settled = inner.table.find(call.counter(), |queue| {
            let (again, unspent) = match answer {
                Ok(answer) => {
                    let left = queue.answer_served(terms, now, (draw, waited), &answer);
                    let brought = (draw.units(), left);
                    let unspent = queue.holding.drawn(terms, (sent, now), brought, answer);
                    (queue.answer_waiters(terms, now), unspent)
                }
                Err(error) => {
                    queue.fail(&error);
                    (false, Vec::new())
                }
            };
            queue.holding.drawing = again;
            (again, unspent)
        });
        let (again, unspent) = settled.unwrap_or_default();
        let unspent = inner.useful(&call.lease, unspent);
        if !unspent.is_empty() {
            let call = call.leased.call(&call.lease, call.key.as_key_ref());
            let give_back = async move { call.give_back(unspent).await };
            inner.store.guard().runtime().spawn(Box::pin(give_back));
        }
        again
    }
}

impl<S: SharedStore> Drop for Drawing<S> {
    fn drop(&mut self) {
        if !self.at_work {
            return;
        }
        self.call.inner().table.find(self.call.counter(), |queue| {
            queue.holding.drawing = false;
            queue.fail(&Error::unavailable("the draw was given up"));
        });
    }
}
