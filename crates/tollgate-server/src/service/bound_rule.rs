//! A rule on the store.

use std::sync::{Arc, OnceLock};

use tollgate::key::Form;
use tollgate::shared::{AnyStore, SharedItem, SharedLimiter};
use tollgate::{Decision, Key, KeyRef, Limit, Policy};
use tollgate_http::LimitHeaders;

use super::Defaults;
use super::error::RequestError;
use super::rule_decision::{RuleDecision, RuleLimiter, Verdict};
use crate::observe::{RuleStats, Scope};
use crate::rules::{EnvoyOptions, Patterns, Rule, Treatment};

/// A rule whose limits are prepared on the store.
#[derive(Debug)]
pub struct BoundRule {
    name: Box<str>,
    treatment: BoundTreatment,
    keys: Patterns<BoundTreatment>,
    shadow: bool,
    cost: u64,
    stats: OnceLock<Arc<RuleStats>>,
    costs: Patterns<u64>,
    envoy: EnvoyOptions,
}

/// A [`Treatment`] whose limits are prepared on the store.
#[derive(Debug)]
enum BoundTreatment {
    Limited(RuleLimiter),
    Exempt,
    Blocked,
}

impl BoundRule {
    /// Prepares a rule on a store.
    ///
    /// # Errors
    /// When the store cannot hold one of its limits.
    pub fn new(
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        rule: &Rule,
    ) -> Result<BoundRule, RequestError> {
        let defaults = &Defaults {
            on_failure: rule.on_failure.unwrap_or(defaults.on_failure),
            deadline: rule.deadline.or(defaults.deadline),
            ..*defaults
        };
        let bind = |treatment: &Treatment| match treatment {
            Treatment::Limited(policy) => {
                let named = rule.named(policy).map_err(tollgate::Error::from)?;
                BoundTreatment::limited(store, defaults, namespace, &named)
            }
            Treatment::Exempt => Ok(BoundTreatment::Exempt),
            Treatment::Blocked => Ok(BoundTreatment::Blocked),
        };
        Ok(BoundRule {
            name: rule.name[..].into(),
            treatment: bind(&rule.treatment)?,
            keys: rule.keys.try_map(bind)?,
            shadow: rule.shadow,
            cost: rule.cost,
            stats: OnceLock::new(),
            costs: rule.costs.clone(),
            envoy: rule.envoy.clone(),
        })
    }

    /// Prepares a policy that came with a request, which has no rule.
    ///
    /// # Errors
    /// When the store cannot hold it.
    pub(crate) fn from_policy(
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        policy: &Policy,
    ) -> Result<BoundRule, RequestError> {
        Ok(BoundRule {
            name: "".into(),
            treatment: BoundTreatment::limited(store, defaults, namespace, policy)?,
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

    /// The treatment of most keys, as text.
    #[must_use]
    pub fn described(&self) -> String {
        self.treatment.described()
    }

    /// The limits of most keys; none if they are exempt or blocked.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.treatment.limits()
    }

    /// The patterns of keys that are treated in another way, each with the limits as text, or
    /// `exempt`, or `blocked`.
    pub(crate) fn overrides(&self) -> impl Iterator<Item = (String, String)> {
        self.keys.iter().map(|(pattern, treatment)| (pattern, treatment.described()))
    }

    /// The units of a hit of cost 1 for most keys.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The patterns of keys whose hits cost other units.
    pub(crate) fn costs(&self) -> impl Iterator<Item = (String, u64)> {
        self.costs.iter().map(|(pattern, cost)| (pattern, *cost))
    }

    /// The counts of its hits.
    pub(crate) fn stats(&self) -> &Arc<RuleStats> {
        self.stats.get_or_init(|| Arc::new(RuleStats::new(Scope::Namespace(""), &self.name)))
    }

    /// Sets the statistics that count its hits. Only the first call has an effect.
    pub(super) fn count_in(&self, stats: Arc<RuleStats>) {
        let _ = self.stats.set(stats);
    }

    /// The limits of a key and the units of a cost of 1; the verdict where no limit decides.
    pub(super) fn limiter_of(&self, key: KeyRef<'_>) -> Result<(&RuleLimiter, u64), Verdict> {
        let special = if self.keys.is_empty() { None } else { self.keys.find(subject(key)) };
        let limiter = match special.unwrap_or(&self.treatment) {
            BoundTreatment::Limited(limiter) => limiter,
            BoundTreatment::Exempt => return Err(Verdict::Exempt),
            BoundTreatment::Blocked => return Err(Verdict::Blocked),
        };
        let price = if self.costs.is_empty() { None } else { self.costs.find(subject(key)) };
        Ok((limiter, price.copied().unwrap_or(self.cost)))
    }

    /// The decision of its limits as one of the rule.
    pub(super) fn decision<'r>(
        &'r self,
        limiter: &'r RuleLimiter,
        decision: Option<Decision>,
    ) -> RuleDecision<'r> {
        let allowed = decision.as_ref().is_none_or(Decision::allowed);
        let verdict = match (allowed, self.shadow) {
            (true, _) => Verdict::Allowed,
            (false, true) => Verdict::Shadowed,
            (false, false) if decision.as_ref().is_some_and(Decision::banned) => Verdict::Banned,
            (false, false) => Verdict::Denied,
        };
        RuleDecision::new(verdict, decision, limiter)
    }

    /// Forgets a key; true if it was not fresh.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn reset<K: Key>(&self, key: K) -> Result<bool, RequestError> {
        match key.with_key(|key| self.limiter_of(key)) {
            Ok((limiter, _)) => {
                let was_there = limiter.limiter.reset(&key).await?;
                key.with_key(|key| self.stats().forget_ban(key));
                Ok(was_there)
            }
            Err(_) => Ok(false),
        }
    }

    /// The options that only Envoy's protocol has.
    #[must_use]
    pub fn envoy(&self) -> &EnvoyOptions {
        &self.envoy
    }

    /// Whether the rule decides and never denies.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether hits on a key are charged even if they are denied.
    pub(crate) fn charges_denied<K: Key + ?Sized>(&self, key: &K) -> bool {
        match key.with_key(|key| self.limiter_of(key)) {
            Ok((limiter, _)) => limiter.limiter.limits().iter().all(Limit::charge_denied),
            Err(_) => false,
        }
    }

    /// A hit of several that pass together; the verdict where no limit decides.
    pub(super) fn item<K: Key>(
        &self,
        key: K,
        cost: u64,
    ) -> Result<(SharedItem<'_, AnyStore>, &RuleLimiter), Verdict> {
        let (limiter, price) = key.with_key(|key| self.limiter_of(key))?;
        Ok((limiter.limiter.item(key, cost.saturating_mul(price)), limiter))
    }
}

impl BoundTreatment {
    fn limits(&self) -> &[Limit] {
        match self {
            BoundTreatment::Limited(limits) => limits.limiter.limits(),
            BoundTreatment::Exempt | BoundTreatment::Blocked => &[],
        }
    }

    fn described(&self) -> String {
        match self {
            BoundTreatment::Limited(_) => {
                let limits: Vec<_> = self.limits().iter().map(ToString::to_string).collect();
                limits.join("; ")
            }
            BoundTreatment::Exempt => "exempt".to_owned(),
            BoundTreatment::Blocked => "blocked".to_owned(),
        }
    }

    fn limited(
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        policy: &Policy,
    ) -> Result<BoundTreatment, RequestError> {
        let mut limiter =
            SharedLimiter::new(store, namespace, policy)?.on_failure(defaults.on_failure)?;
        if let Some(deadline) = defaults.deadline {
            limiter = limiter.deadline(deadline);
        }
        let headers = Arc::new(LimitHeaders::new(policy.limits()));
        Ok(BoundTreatment::Limited(RuleLimiter { limiter, headers }))
    }
}

/// The text that the patterns of a rule match: the key, or its last part.
fn subject(key: KeyRef<'_>) -> &[u8] {
    match key.form() {
        Form::Plain => key.bytes(),
        _ => key.parts().last().unwrap_or_default(),
    }
}
