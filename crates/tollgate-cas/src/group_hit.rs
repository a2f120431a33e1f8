//! Combined hits (all or none) on a store whose swaps change one cell: first peek at all, then
//! charge all, and refund what was charged if one is denied after all.
//!
//! Other callers may come between these steps. Then a unit may be charged that is refunded a moment
//! later. Meanwhile others may be denied because of it, but never admitted. Without such races the
//! answers are those of one atomic step.
//!
//! A ban is one cell, so each denial is counted once and the ban starts at the exact count. A hit
//! that was decided at that moment may still pass.

use std::sync::Arc;

use tollgate::algorithm::{Act, AnyMachine, Op};
use tollgate::{Error, Outcome};

use crate::Inner;
use crate::cells::{Cells, Name};
use crate::job::CellCall;
use crate::store::{Times, all_or_error};

/// One hit of the group.
#[derive(Clone)]
struct Hit {
    name: Name,
    call: CellCall,
    cost: u64,
}

impl Hit {
    fn peek(&self) -> Act {
        Act::Op(Op::Peek(self.cost))
    }

    fn is_ban(&self) -> bool {
        self.call.machine.is_ban()
    }

    fn with_act(&self, act: Act) -> (Name, CellCall) {
        (self.name.clone(), CellCall { act, ..self.call.clone() })
    }
}

/// Hits all cells, or none. Runs in a task, so that it refunds what it charged even if the caller
/// is dropped.
pub(crate) async fn hit<C: Cells>(
    inner: Arc<Inner<C>>,
    calls: Vec<(Name, CellCall)>,
    times: Times,
) -> Result<Vec<Outcome>, Error> {
    let hit = |(name, call): (Name, CellCall)| Hit { name, cost: call.cost(), call };
    let hits: Vec<Hit> = calls.into_iter().map(hit).collect();
    let runtime = inner.runtime.clone();
    let group = Group { inner, hits, times };
    let runtime_ended = |_| Err(Error::lost("the runtime of the store has ended"));
    runtime.spawn(async move { group.decide().await }).await.unwrap_or_else(runtime_ended)
}

struct Group<C: Cells> {
    inner: Arc<Inner<C>>,
    hits: Vec<Hit>,
    times: Times,
}

impl<C: Cells> Group<C> {
    /// Makes one call for each hit; `act` gets the hit.
    async fn call_each(&self, act: impl Fn(&Hit) -> Act) -> Vec<Result<Outcome, Error>> {
        let calls = self.hits.iter().map(|hit| hit.with_act(act(hit)));
        self.inner.call_each(calls, self.times).await
    }

    async fn decide(&self) -> Result<Vec<Outcome>, Error> {
        if !self.likely_fits() {
            let peeked = all_or_error(self.call_each(Hit::peek).await)?;
            if peeked.iter().any(|decision| !decision.allowed()) {
                return self.deny(&peeked).await;
            }
        }
        let tried = self.call_each(|hit| Act::TryHit(hit.cost)).await;
        if tried.iter().all(|answer| answer.as_ref().is_ok_and(Outcome::allowed)) {
            return all_or_error(tried);
        }
        self.refund(&tried).await;
        let tried = all_or_error(tried)?;
        self.deny(&tried).await
    }

    /// Whether all states are cached and have room: then the peek is left out.
    fn likely_fits(&self) -> bool {
        let now = self.times.at.unwrap_or_else(|| self.inner.clock.now());
        self.hits.iter().all(|hit| {
            let Some(mut cell) = self.inner.cache.get(&hit.name) else { return false };
            let peek = Op::Peek(hit.cost);
            !cell.contended && hit.call.machine.apply(&mut cell.state, now, peek).allowed()
        })
    }

    /// Refunds the hits that were charged before another one was denied or failed.
    async fn refund(&self, tried: &[Result<Outcome, Error>]) {
        let charged = self.hits.iter().zip(tried).filter_map(|(hit, answer)| {
            let decision = answer.as_ref().ok().filter(|decision| decision.charged() > 0)?;
            Some(hit.with_act(Act::Op(Op::Refund(decision.receipt()))))
        });
        // Refunds are done even if the caller has left.
        let times = Times { deadline: None, ..self.times };
        for answer in self.inner.call_each(charged, times).await {
            if let Err(error) = answer {
                tracing::warn!(%error, "the refund of a hit failed that was charged before another hit of its group was denied");
            }
        }
    }

    /// Charges what the limits charge for denied hits. The limits that denied may have room again
    /// by now; then the answer is their earlier decision. While a key is banned, nothing but bans is
    /// attempted.
    async fn deny(&self, earlier: &[Outcome]) -> Result<Vec<Outcome>, Error> {
        let banned = earlier.iter().any(Outcome::banned);
        let act = |hit: &Hit| match (hit.is_ban(), banned) {
            (true, true) => Act::TryHit(hit.cost),
            (false, false) => Act::DenyHit(hit.cost),
            _ => hit.peek(),
        };
        let mut outcomes = all_or_error(self.call_each(act).await)?;
        if outcomes.iter().all(Outcome::allowed) {
            for (outcome, earlier) in outcomes.iter_mut().zip(earlier) {
                if !earlier.allowed() {
                    *outcome = *earlier;
                }
            }
        }
        if !banned {
            self.count_denials(&mut outcomes).await?;
        }
        Ok(outcomes)
    }

    /// Lets each ban count the denial of a limit that it watches.
    async fn count_denials(&self, outcomes: &mut [Outcome]) -> Result<(), Error> {
        let counts = |index: &usize| {
            let AnyMachine::Ban(ban) = &*self.hits[*index].call.machine else { return false };
            let watched = &outcomes[index.saturating_sub(ban.watches())..*index];
            !watched.iter().all(Outcome::allowed)
        };
        let bans: Vec<usize> = (0..self.hits.len()).filter(counts).collect();
        if bans.is_empty() {
            return Ok(());
        }
        let calls = bans.iter().map(|index| {
            let hit = &self.hits[*index];
            hit.with_act(Act::DenyHit(hit.cost))
        });
        let counted = all_or_error(self.inner.call_each(calls, self.times).await)?;
        for (index, outcome) in bans.into_iter().zip(counted) {
            outcomes[index] = outcome;
        }
        Ok(())
    }
}
