//! Hits that belong together on a store that changes one cell at a time: asked, charged, and given
//! back when one of them is refused.
//!
//! Between two of these steps others may come. Then something is charged that is given back a
//! moment later: others may be denied for it, and nobody is admitted by it. In a quiet store the
//! answers are those of one step.

use std::sync::Arc;

use tollgate::algorithm::Op;
use tollgate::{Decision, Error, Timestamp};

use crate::Inner;
use crate::act::{Act, Part};
use crate::cells::{Cells, Name};
use crate::store::all;

/// One hit of the group.
#[derive(Clone)]
struct Hit {
    name: Name,
    part: Part,
    cost: u64,
}

impl Hit {
    fn act(&self, act: Act) -> (Name, Part) {
        (self.name.clone(), Part { act, ..self.part.clone() })
    }
}

/// Runs to its end also if nobody waits for it any more: what is charged must not stay so.
pub(crate) async fn hit<C: Cells>(
    inner: Arc<Inner<C>>,
    parts: Vec<(Name, Part)>,
    at: Option<Timestamp>,
) -> Result<Vec<Decision>, Error> {
    let hit = |(name, part): (Name, Part)| {
        let Act::Op(Op::Hit(cost)) = part.act else { return None };
        Some(Hit { name, part, cost })
    };
    let hits: Vec<Hit> = parts.into_iter().filter_map(hit).collect();
    let runtime = inner.runtime.clone();
    let group = Group { inner, hits, at };
    let ended = |_| Err(Error::lost("the runtime of the store has ended"));
    runtime.spawn(async move { group.decide().await }).await.unwrap_or_else(ended)
}

struct Group<C: Cells> {
    inner: Arc<Inner<C>>,
    hits: Vec<Hit>,
    at: Option<Timestamp>,
}

impl<C: Cells> Group<C> {
    async fn each(&self, act: impl Fn(u64) -> Act) -> Vec<Result<Decision, Error>> {
        let parts = self.hits.iter().map(|hit| hit.act(act(hit.cost)));
        self.inner.each(parts, self.at).await
    }

    async fn decide(&self) -> Result<Vec<Decision>, Error> {
        if !self.likely_fits() {
            let asked = all(self.each(|cost| Act::Op(Op::Peek(cost))).await)?;
            if asked.iter().any(|decision| !decision.allowed()) {
                return self.refuse(&asked).await;
            }
        }
        let tried = self.each(Act::Try).await;
        if tried.iter().all(|answer| answer.as_ref().is_ok_and(Decision::allowed)) {
            return all(tried);
        }
        self.give_back(&tried).await;
        let tried = all(tried)?;
        self.refuse(&tried).await
    }

    /// Whether all states are remembered and have room: then nobody need be asked before.
    fn likely_fits(&self) -> bool {
        let now = self.at.unwrap_or_else(|| self.inner.clock.now());
        self.hits.iter().all(|hit| {
            let Some(mut known) = self.inner.memory.recall(&hit.name) else { return false };
            let peek = Op::Peek(hit.cost);
            !known.contended && hit.part.machine.apply(&mut known.state, now, peek).allowed()
        })
    }

    /// What was charged before another one refused or failed.
    async fn give_back(&self, tried: &[Result<Decision, Error>]) {
        let charged = self.hits.iter().zip(tried).filter_map(|(hit, answer)| {
            let decision = answer.as_ref().ok().filter(|decision| decision.charged() > 0)?;
            Some(hit.act(Act::Op(Op::Refund(decision.receipt()))))
        });
        for error in self.inner.each(charged, self.at).await.iter().filter_map(|r| r.as_ref().err())
        {
            tracing::warn!(%error, "what was charged for a refused group could not be given back");
        }
    }

    /// Charges what is charged for refused hits. Who refused may have room by now; it has refused
    /// all the same.
    async fn refuse(&self, refusing: &[Decision]) -> Result<Vec<Decision>, Error> {
        let mut outcomes = all(self.each(Act::Refuse).await)?;
        if outcomes.iter().all(Decision::allowed) {
            for (outcome, refusing) in outcomes.iter_mut().zip(refusing) {
                if !refusing.allowed() {
                    *outcome = *refusing;
                }
            }
        }
        Ok(outcomes)
    }
}
