//! Hits on several keys, all or nothing.

use tollgate::shared::hit_all_shared;
use tollgate::{Decision, Key, Outcome};

use super::Service;
use super::bound_rule::BoundRule;
use super::error::{RequestError, RequestErrorKind};
use super::operation::Operation;
use super::rule_decision::{RuleDecision, Verdict};

/// A hit on a key of a rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleHit<'a, K = &'a [u8]> {
    /// The rule.
    pub rule: &'a BoundRule,
    /// The key.
    pub key: K,
    /// Its cost, in units.
    pub cost: u64,
}

impl<K: Key> RuleHit<'_, K> {
    /// Whether it is charged even when the request is denied.
    pub(crate) fn charges_denied(&self) -> bool {
        self.rule.charges_denied(&self.key)
    }

    /// The operation once another hit has denied the request.
    fn denied(&self) -> Operation {
        if self.charges_denied() { Operation::Hit(self.cost) } else { Operation::Peek(self.cost) }
    }
}

impl Service {
    /// Hits several keys, all or nothing. There is a decision for each hit, in order, of its own
    /// limits; the whole passes if [all of them do](RuleDecision::passes). Otherwise nothing is
    /// charged but limits that charge denied hits.
    ///
    /// A rule in shadow mode never denies the others: it is hit if the others pass, and peeked if
    /// they do not.
    ///
    /// # Errors
    /// As [`execute`](Service::execute); and when one counter is named twice, or the store cannot
    /// decide on these keys in one step.
    pub async fn hit_all<'r, K: Key>(
        &self,
        hits: &[RuleHit<'r, K>],
    ) -> Result<Vec<RuleDecision<'r>>, RequestError> {
        let is_blocked =
            |hit: &RuleHit<'_, K>| matches!(hit.rule.item(&hit.key, 0), Err(Verdict::Blocked));
        if hits.iter().any(is_blocked) {
            return self.deny_all(hits).await;
        }
        let (shadows, binding): (Vec<_>, Vec<_>) =
            hits.iter().enumerate().partition(|(_, hit)| hit.rule.is_shadow());
        let mut decisions = vec![None; hits.len()];
        let bound: Vec<_> = binding.iter().map(|(_, hit)| *hit).collect();
        let bound = in_one_step(&bound).await.inspect_err(|error| {
            if error.kind() == RequestErrorKind::Store {
                binding.iter().for_each(|(_, hit)| hit.rule.stats().failed());
            }
        })?;
        let passes = bound.iter().all(RuleDecision::passes);
        for ((index, hit), decision) in binding.iter().zip(bound) {
            hit.key.with_key(|key| {
                self.observer().saw(hit.rule.stats(), key, decision.verdict);
                hit.rule.stats().saw_ban(key, decision.outcomes());
            });
            decisions[*index] = Some(decision);
        }
        for (index, hit) in shadows {
            let operation = if passes { Operation::Hit(hit.cost) } else { hit.denied() };
            decisions[index] = Some(self.execute(hit.rule, &hit.key, operation).await?);
        }
        Ok(decisions.into_iter().flatten().collect())
    }

    /// Decisions for the hits of a request that is denied: limits that charge denied hits are
    /// charged, the others only peeked.
    pub(crate) async fn deny_all<'r, K: Key>(
        &self,
        hits: &[RuleHit<'r, K>],
    ) -> Result<Vec<RuleDecision<'r>>, RequestError> {
        let mut decisions = Vec::with_capacity(hits.len());
        for hit in hits {
            decisions.push(self.execute(hit.rule, &hit.key, hit.denied()).await?);
        }
        Ok(decisions)
    }
}

/// Hits all keys in one step of the store, but for those that no limit decides on.
async fn in_one_step<'r, K: Key>(
    hits: &[&RuleHit<'r, K>],
) -> Result<Vec<RuleDecision<'r>>, RequestError> {
    let (mut items, mut limiters) =
        (Vec::with_capacity(hits.len()), Vec::with_capacity(hits.len()));
    for hit in hits {
        match hit.rule.item(&hit.key, hit.cost) {
            Ok((item, limiter)) => {
                items.push(item);
                limiters.push(Ok((hit.rule, limiter)));
            }
            Err(verdict) => limiters.push(Err(verdict)),
        }
    }
    let decided = match items.is_empty() {
        true => None,
        false => Some(hit_all_shared(&items, None).await?),
    };
    let mut outcomes = decided.as_ref().map_or(&[][..], |decided| decided.outcomes());
    let mut own = |limits: usize| -> Vec<Outcome> {
        let (own, rest) = outcomes.split_at(limits.min(outcomes.len()));
        outcomes = rest;
        own.to_vec()
    };
    let decision = |limiter: Result<_, Verdict>| match limiter {
        Ok((rule, limiter)) => {
            let (rule, limiter): (&BoundRule, &super::rule_decision::RuleLimiter) = (rule, limiter);
            let decision = Decision::from_outcomes(own(limiter.limiter.limits().len()));
            rule.decision(limiter, decision)
        }
        Err(verdict) => RuleDecision::without_limits(verdict),
    };
    Ok(limiters.into_iter().map(decision).collect())
}
