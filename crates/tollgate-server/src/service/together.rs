//! Several keys, all or nothing.

use tollgate::shared::hit_all_shared;
use tollgate::{Decision, Key, KeyRef, PolicyDecision};

use super::Service;
use super::answer::{Answer, Decisions, Verdict};
use super::bound::Bound;
use super::limiter::Operation;
use super::refusal::{Refusal, RefusalKind};

/// One of several things asked together.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a, K = &'a [u8]> {
    /// Which limit.
    pub bound: &'a Bound,
    /// For which key.
    pub key: K,
    /// Units.
    pub cost: u64,
}

impl Service {
    /// Hits several keys, all or nothing. There is an answer for each item, in order, of what its own limits say; the whole passes if
    /// [all of them do](Answer::passes). Otherwise nothing is charged but limits that charge denied hits.
    ///
    /// A rule in shadow mode stands in nobody's way: it is hit if the others pass, and looked at if they do not.
    ///
    /// # Errors
    /// As [`ask`](Service::ask); and when one counter is named twice, or the store cannot decide these keys at once.
    pub async fn hit_all<K: Key>(&self, items: &[Item<'_, K>]) -> Result<Vec<Answer>, Refusal> {
        let blocked =
            |item: &Item<'_, K>| matches!(item.bound.item(&item.key, 0), Err(Verdict::Blocked));
        if items.iter().any(blocked) {
            return self.each(items, Operation::Peek).await;
        }
        let (shadows, binding): (Vec<_>, Vec<_>) =
            items.iter().enumerate().partition(|(_, item)| item.bound.is_shadow());
        let mut answers = vec![None; items.len()];
        let bound: Vec<_> = binding.iter().map(|(_, item)| *item).collect();
        let bound = together(&bound).await.inspect_err(|refusal| {
            if refusal.kind() == RefusalKind::Store {
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
        let look = if passes { Operation::Hit } else { Operation::Peek };
        for (index, item) in shadows {
            answers[index] = Some(self.ask(item.bound, &item.key, look(item.cost)).await?);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Asks each for itself.
    async fn each<K: Key>(
        &self,
        items: &[Item<'_, K>],
        operation: fn(u64) -> Operation,
    ) -> Result<Vec<Answer>, Refusal> {
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            answers.push(self.ask(item.bound, &item.key, operation(item.cost)).await?);
        }
        Ok(answers)
    }
}

/// In one step of the store; what is exempt is not asked.
async fn together<K: Key>(items: &[&Item<'_, K>]) -> Result<Vec<Answer>, Refusal> {
    let (mut asked, mut answers) =
        (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for item in items {
        match item.bound.item(&item.key, item.cost) {
            Ok((item, limits)) => {
                asked.push(item);
                answers.push(Err(limits));
            }
            Err(verdict) => answers.push(Ok(Answer { verdict, decisions: Decisions::None })),
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
fn answer(outcomes: &[Decision]) -> Answer {
    let decisions = match outcomes {
        [decision] => Decisions::One(*decision),
        several => PolicyDecision::of(several).map_or(Decisions::None, Decisions::several),
    };
    let verdict = if decisions.allowed() { Verdict::Allowed } else { Verdict::Denied };
    Answer { verdict, decisions }
}
