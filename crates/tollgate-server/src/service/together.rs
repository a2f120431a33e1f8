//! Several keys, all or nothing.

use tollgate::shared::hit_all_shared;
use tollgate::{Decision, Key, KeyRef, Outcome};

use super::Service;
use super::answer::{Answer, Verdict};
use super::bound_rule::BoundRule;
use super::error::{RequestError, RequestErrorKind};
use super::limiter::Operation;

/// One of several things asked together.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a, K = &'a [u8]> {
    /// Which limit.
    pub bound: &'a BoundRule,
    /// For which key.
    pub key: K,
    /// Units.
    pub cost: u64,
}

impl<K: Key> Item<'_, K> {
    /// Whether it is charged even when the request is refused.
    pub(crate) fn charges_denied(&self) -> bool {
        self.bound.charges_denied(&self.key)
    }

    /// What to ask for it once another item has refused the request.
    pub(crate) fn refused(&self) -> Operation {
        if self.charges_denied() { Operation::Hit(self.cost) } else { Operation::Peek(self.cost) }
    }
}

impl Service {
    /// Hits several keys, all or nothing. There is an answer for each item, in order, of what its
    /// own limits say; the whole passes if [all of them do](Answer::passes). Otherwise nothing is
    /// charged but limits that charge denied hits.
    ///
    /// A rule in shadow mode stands in nobody's way: it is hit if the others pass, and looked at if
    /// they do not.
    ///
    /// # Errors
    /// As [`ask`](Service::ask); and when one counter is named twice, or the store cannot decide
    /// these keys at once.
    pub async fn hit_all<K: Key>(
        &self,
        items: &[Item<'_, K>],
    ) -> Result<Vec<Answer>, RequestError> {
        let blocked =
            |item: &Item<'_, K>| matches!(item.bound.item(&item.key, 0), Err(Verdict::Blocked));
        if items.iter().any(blocked) {
            return self.refuse_all(items).await;
        }
        let (shadows, binding): (Vec<_>, Vec<_>) =
            items.iter().enumerate().partition(|(_, item)| item.bound.is_shadow());
        let mut answers = vec![None; items.len()];
        let bound: Vec<_> = binding.iter().map(|(_, item)| *item).collect();
        let bound = together(&bound).await.inspect_err(|error| {
            if error.kind() == RequestErrorKind::Store {
                binding.iter().for_each(|(_, item)| item.bound.stats().failed());
            }
        })?;
        let passes = bound.iter().all(Answer::passes);
        for ((index, item), answer) in binding.iter().zip(bound) {
            let saw = |key: KeyRef<'_>| {
                self.observer().saw(item.bound.stats(), key, answer.verdict);
            };
            item.key.with_key(saw);
            answers[*index] = Some(answer);
        }
        for (index, item) in shadows {
            let operation = if passes { Operation::Hit(item.cost) } else { item.refused() };
            answers[index] = Some(self.ask(item.bound, &item.key, operation).await?);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Answers for the items of a request that is refused: limits that charge denied hits are
    /// charged, the others only looked at.
    pub(crate) async fn refuse_all<K: Key>(
        &self,
        items: &[Item<'_, K>],
    ) -> Result<Vec<Answer>, RequestError> {
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            answers.push(self.ask(item.bound, &item.key, item.refused()).await?);
        }
        Ok(answers)
    }
}

/// In one step of the store; what is exempt is not asked.
async fn together<K: Key>(items: &[&Item<'_, K>]) -> Result<Vec<Answer>, RequestError> {
    let (mut asked, mut answers) =
        (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for item in items {
        match item.bound.item(&item.key, item.cost) {
            Ok((item, limits)) => {
                asked.push(item);
                answers.push(Err(limits));
            }
            Err(verdict) => answers.push(Ok(Answer { verdict, decision: None })),
        }
    }
    let decided = match asked.is_empty() {
        true => None,
        false => Some(hit_all_shared(&asked, None).await?),
    };
    let mut outcomes = decided.as_ref().map_or(&[][..], |decided| decided.outcomes());
    let mut of_limits = |limits: usize| {
        let (own, rest) = outcomes.split_at(limits.min(outcomes.len()));
        outcomes = rest;
        answer(own)
    };
    Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(&mut of_limits)).collect())
}

/// Of what the limits of one rule said.
fn answer(outcomes: &[Outcome]) -> Answer {
    let decision = Decision::from_outcomes(outcomes.to_vec());
    let allowed = decision.as_ref().is_none_or(Decision::allowed);
    let verdict = if allowed { Verdict::Allowed } else { Verdict::Denied };
    Answer { verdict, decision }
}
