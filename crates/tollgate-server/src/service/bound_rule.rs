//! A rule on the store.

use std::sync::{Arc, OnceLock};

use tollgate::key::Form;
use tollgate::shared::{AnyStore, SharedItem};
use tollgate::{Key, KeyRef, Limit, Policy};
use tollgate_http::LimitHeaders;

use super::Defaults;
use super::answer::{Answer, Verdict};
use super::error::RequestError;
use super::limiter::{Limiter, Operation};
use crate::observe::{RuleStats, Scope};
use crate::rules::{EnvoyOptions, Patterns, Rule, Treatment};

/// A rule, bound to the store: what a question is asked of.
#[derive(Debug)]
pub struct BoundRule {
    name: Box<str>,
    way: Way,
    keys: Patterns<Way>,
    shadow: bool,
    cost: u64,
    stats: OnceLock<Arc<RuleStats>>,
    costs: Patterns<u64>,
    envoy: EnvoyOptions,
}

/// A [`Treatment`] on the store.
#[derive(Debug)]
enum Way {
    Limited(Limiter),
    Exempt,
    Blocked,
}

impl BoundRule {
    /// On a store.
    ///
    /// # Errors
    /// When the store cannot hold one of its limits.
    pub fn new(
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        rule: &Rule,
    ) -> Result<BoundRule, RequestError> {
        let on_failure = rule.on_failure.unwrap_or(defaults.on_failure);
        let deadline = rule.deadline.or(defaults.deadline);
        let way = |treatment: &Treatment| match treatment {
            Treatment::Limited(policy) => {
                let named = rule.named(policy).map_err(tollgate::Error::from)?;
                let limiter = Limiter::new(store, namespace, &named, on_failure, deadline)?;
                Ok::<_, RequestError>(Way::Limited(limiter))
            }
            Treatment::Exempt => Ok(Way::Exempt),
            Treatment::Blocked => Ok(Way::Blocked),
        };
        Ok(BoundRule {
            name: rule.name[..].into(),
            way: way(&rule.treatment)?,
            keys: rule.keys.try_map(way)?,
            shadow: rule.shadow,
            cost: rule.cost,
            stats: OnceLock::new(),
            costs: rule.costs.clone(),
            envoy: rule.envoy.clone(),
        })
    }

    /// A policy without a rule, as requests bring them.
    ///
    /// # Errors
    /// When the store cannot hold it.
    pub(crate) fn bare(
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        policy: &Policy,
    ) -> Result<BoundRule, RequestError> {
        let Defaults { on_failure, deadline, .. } = *defaults;
        Ok(BoundRule {
            name: "".into(),
            way: Way::Limited(Limiter::new(store, namespace, policy, on_failure, deadline)?),
            keys: Patterns::default(),
            shadow: false,
            cost: 1,
            stats: OnceLock::new(),
            costs: Patterns::default(),
            envoy: EnvoyOptions::default(),
        })
    }

    /// The name of the rule; empty for a limit that came with a request.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What most keys get, as text.
    #[must_use]
    pub fn described(&self) -> String {
        match &self.way {
            Way::Limited(limiter) => {
                let limits: Vec<_> = limiter.limits().iter().map(ToString::to_string).collect();
                limits.join("; ")
            }
            Way::Exempt => "exempt".to_owned(),
            Way::Blocked => "blocked".to_owned(),
        }
    }

    /// What its hits are counted in.
    pub(crate) fn stats(&self) -> &Arc<RuleStats> {
        self.stats.get_or_init(|| Arc::new(RuleStats::new(Scope::Namespace(""), &self.name)))
    }

    /// Counts go on in these.
    pub(super) fn count_in(&self, stats: Arc<RuleStats>) {
        let _ = self.stats.set(stats);
    }

    /// The limits that a key meets, in the order of its decisions; none if it is exempt or blocked.
    #[must_use]
    pub fn limits_of<K: Key + ?Sized>(&self, key: &K) -> &[Limit] {
        key.with_key(|key| self.limiter_of(key)).map_or(&[], Limiter::limits)
    }

    /// What headers say of these limits whatever is decided; nothing for a key that is exempt or
    /// blocked.
    #[must_use]
    pub fn headers_of<K: Key + ?Sized>(&self, key: &K) -> Option<&Arc<LimitHeaders>> {
        key.with_key(|key| self.limiter_of(key)).ok().map(Limiter::headers)
    }

    fn limiter_of(&self, key: KeyRef<'_>) -> Result<&Limiter, Verdict> {
        let special = if self.keys.is_empty() { None } else { self.keys.find(subject(key)) };
        match special.unwrap_or(&self.way) {
            Way::Limited(limiter) => Ok(limiter),
            Way::Exempt => Err(Verdict::Exempt),
            Way::Blocked => Err(Verdict::Blocked),
        }
    }

    /// Asks. By [`Service::ask`](super::Service::ask), which counts.
    ///
    /// # Errors
    /// When the store does not answer and nothing says what to do then.
    pub(super) async fn ask<K: Key>(
        &self,
        key: K,
        operation: Operation,
    ) -> Result<Answer, RequestError> {
        let limiter = match key.with_key(|key| self.limiter_of(key)) {
            Ok(limiter) => limiter,
            Err(verdict) => return Ok(Answer { verdict, decision: None }),
        };
        let priced = self.priced(&key, operation);
        let decision = limiter.ask(key, priced).await?;
        Ok(Answer { verdict: self.verdict(decision.allowed()), decision: Some(decision) })
    }

    /// A hit without a future, where nobody has to be waited for; `None` where somebody has, and
    /// then nothing was asked.
    #[inline]
    pub(super) fn hit_now<K: Key + ?Sized>(&self, key: &K, cost: u64) -> Option<Answer> {
        let limiter = match key.with_key(|key| self.limiter_of(key)) {
            Ok(limiter) => limiter,
            Err(verdict) => return Some(Answer { verdict, decision: None }),
        };
        let decision = limiter.hit_now(key, cost.saturating_mul(self.price(key)))?;
        let verdict = self.verdict(decision.allowed());
        Some(Answer { verdict, decision: Some(decision) })
    }

    fn verdict(&self, allowed: bool) -> Verdict {
        match (allowed, self.shadow) {
            (true, _) => Verdict::Allowed,
            (false, false) => Verdict::Denied,
            (false, true) => Verdict::Shadowed,
        }
    }

    /// Forgets a key; true if it was not fresh.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, RequestError> {
        match key.with_key(|key| self.limiter_of(key)) {
            Ok(limiter) => Ok(limiter.reset(key).await?),
            Err(_) => Ok(false),
        }
    }

    /// What a rule of a domain says beyond its limit.
    #[must_use]
    pub fn envoy(&self) -> &EnvoyOptions {
        &self.envoy
    }

    /// Whether the rule decides and never refuses.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether hits on a key are charged even if they are denied.
    pub(crate) fn charges_denied<K: Key + ?Sized>(&self, key: &K) -> bool {
        let limits = self.limits_of(key);
        !limits.is_empty() && limits.iter().all(Limit::charge_denied)
    }

    /// For decisions over several keys; the verdict instead where nothing is to be asked.
    pub(crate) fn item<K: Key>(
        &self,
        key: K,
        cost: u64,
    ) -> Result<(SharedItem<'_, AnyStore>, usize), Verdict> {
        let limiter = key.with_key(|key| self.limiter_of(key))?;
        let cost = cost.saturating_mul(self.price(&key));
        let item = limiter.item(key, cost);
        Ok((item, limiter.limits().len()))
    }

    /// How many units a cost of 1 is for a key.
    fn price<K: Key + ?Sized>(&self, key: &K) -> u64 {
        if self.costs.is_empty() {
            return self.cost;
        }
        key.with_key(|key| self.costs.find(subject(key)).copied()).unwrap_or(self.cost)
    }

    fn priced<K: Key>(&self, key: &K, operation: Operation) -> Operation {
        let price = self.price(key);
        let priced = |units: u64| units.saturating_mul(price);
        match operation {
            Operation::Hit(cost) => Operation::Hit(priced(cost)),
            Operation::Peek(cost) => Operation::Peek(priced(cost)),
            Operation::Take(cost) => Operation::Take(priced(cost)),
            Operation::Charge(units) => Operation::Charge(priced(units)),
            Operation::Refund(units) => Operation::Refund(priced(units)),
            Operation::Set(_) | Operation::Usage => operation,
        }
    }
}

/// What patterns of a rule are compared with: the key, or its last part.
fn subject(key: KeyRef<'_>) -> &[u8] {
    match key.form() {
        Form::Plain => key.bytes(),
        _ => key.parts().last().unwrap_or_default(),
    }
}
