//! The path of an operation from every port to the store: find the rule, decide, count.

mod binding;
mod bound_rule;
mod domain;
mod error;
mod hit_all;
mod inline_limits;
mod operation;
mod refund;
mod resolve;
mod rule_decision;

pub use bound_rule::BoundRule;
pub use domain::{DescriptorEntry, DescriptorKey, Match};
pub use error::{RequestError, RequestErrorKind};
pub use hit_all::RuleHit;
pub use operation::Operation;
pub use refund::{Receipts, RuleRefund};
pub use rule_decision::{RuleDecision, Verdict};

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate::shared::{AnyStore, OnFailure};
use tollgate::{Key, KeyRef, Policy};

use crate::config::Problems;
use crate::observe::{Observer, Scope};
use crate::reload::Reloads;
use crate::rules::RuleSet;
use crate::settings::StoreSettings;
use crate::telemetry;
use binding::Binding;
use domain::Domain;
use inline_limits::InlineLimitCache;

/// Rules on a store, replaced as a whole when the configuration changes.
#[derive(Debug)]
pub struct Service {
    store: AnyStore,
    rules: ArcSwap<BoundRules>,
    pub(crate) inline_limits: InlineLimitCache,
    observer: Observer,
    reloads: Reloads,
}

/// The settings of all rules that do not set their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// The decision when the store makes none.
    pub on_failure: OnFailure,
    /// How long the store may take, instead of the deadline that it was opened with.
    pub deadline: Option<Duration>,
    /// The most limits that came with requests and are kept prepared.
    pub max_inline_limits: usize,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { on_failure: OnFailure::Error, deadline: None, max_inline_limits: 10_000 }
    }
}

impl From<&StoreSettings> for Defaults {
    fn from(store: &StoreSettings) -> Self {
        let defaults = Defaults { on_failure: store.on_failure, ..Defaults::default() };
        // Limits that are kept prepared are never forgotten by the store: leave half of it to
        // others.
        let half = store.max_limits.map_or(usize::MAX, |max| max / 2);
        Defaults { max_inline_limits: defaults.max_inline_limits.min(half), ..defaults }
    }
}

/// Values by name, looked up without copying the name.
type Names<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The rules in force.
#[derive(Debug, Default)]
struct BoundRules {
    /// The rules by namespace and name.
    limits: Names<Names<Arc<BoundRule>>>,
    domains: Names<Domain>,
}

impl Service {
    /// Prepares rules on a store.
    ///
    /// # Errors
    /// When the store cannot hold some of the limits: all of them, by file and line.
    pub fn new(store: AnyStore, defaults: Defaults, rules: &RuleSet) -> Result<Service, Problems> {
        let observer = Observer::default();
        let bounds = BoundRules::new(&store, defaults, rules)?;
        bounds.count_in(&observer);
        Ok(Service {
            store,
            rules: ArcSwap::from_pointee(bounds),
            inline_limits: InlineLimitCache::new(defaults),
            observer,
            reloads: Reloads::default(),
        })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Replaces the rules in force. Counters of limits that keep their name, algorithm and period
    /// stay.
    ///
    /// # Errors
    /// When the store cannot hold some of the limits: all of them, by file and line. Then the old
    /// rules stay in force.
    pub fn replace(&self, defaults: Defaults, rules: &RuleSet) -> Result<(), Problems> {
        let bounds = BoundRules::new(&self.store, defaults, rules)?;
        bounds.count_in(&self.observer);
        self.rules.store(Arc::new(bounds));
        self.inline_limits.replace(defaults);
        Ok(())
    }

    /// The rule of a domain for the entries of a descriptor; `None` if no rule matches.
    #[must_use]
    pub fn matching<E: DescriptorEntry>(&self, domain: &str, entries: &[E]) -> Option<Match> {
        let rules = self.rules.load();
        let Some(domain) = rules.domains.get(domain) else {
            self.observer.unknown_domain();
            return None;
        };
        domain.find(entries)
    }

    /// The rule of a domain for these entries, without counting the request.
    pub(crate) fn find_in_domain<E: DescriptorEntry>(
        &self,
        domain: &str,
        entries: &[E],
    ) -> Option<Match> {
        self.rules.load().domains.get(domain)?.find(entries)
    }

    /// A policy that came with a request, prepared once. Its counters are not those of rules.
    /// `text`, if given, is a namespace of texts and a text by which the
    /// [cache](Service::inline_limits) finds the limit again.
    ///
    /// # Errors
    /// When the store cannot hold it.
    pub(crate) fn inline_limit(
        &self,
        namespace: &str,
        policy: &Policy,
        text: Option<(&[u8], &[u8])>,
    ) -> Result<Arc<BoundRule>, RequestError> {
        // All of them are counted together: clients choose how many there are.
        let count = |rule: &BoundRule| {
            rule.count_in(self.observer.rule(Scope::Namespace(""), ""));
        };
        self.inline_limits.get_or_prepare(&self.store, namespace, policy, text, count)
    }

    /// Runs an operation on a key of a rule.
    ///
    /// # Errors
    /// When the store does not decide and no rule says what to do then.
    pub async fn execute<'r, K: Key>(
        &self,
        rule: &'r BoundRule,
        key: K,
        operation: Operation,
    ) -> Result<RuleDecision<'r>, RequestError> {
        if let Some(decision) = self.try_now(rule, &key, operation) {
            return Ok(decision);
        }
        let decision = match key.with_key(|key| rule.limiter_of(key)) {
            Err(verdict) => RuleDecision::without_limits(verdict),
            Ok((limiter, price)) => {
                let decision = operation.priced(price).run(&limiter.limiter, &key).await;
                let decision = decision.map_err(RequestError::from).inspect_err(|error| {
                    if error.is_of_store() {
                        rule.stats().failed();
                    }
                })?;
                rule.decision(limiter, Some(decision))
            }
        };
        if operation.is_hit() {
            key.with_key(|key| self.count(rule, key, &decision));
        }
        Ok(decision)
    }

    /// A hit without a future, where the store need not be waited for; `None` for other operations
    /// and stores, and then nothing was charged.
    #[inline]
    pub fn try_now<'r, K: Key + ?Sized>(
        &self,
        rule: &'r BoundRule,
        key: &K,
        operation: Operation,
    ) -> Option<RuleDecision<'r>> {
        let Operation::Hit(cost) = operation else { return None };
        key.with_key(|key| {
            let decision = match rule.limiter_of(key) {
                Err(verdict) => RuleDecision::without_limits(verdict),
                Ok((limiter, price)) => {
                    let cost = cost.saturating_mul(price);
                    rule.decision(limiter, Some(limiter.limiter.hit_now(&key, cost)?))
                }
            };
            self.count(rule, key, &decision);
            Some(decision)
        })
    }

    /// Counts a hit.
    fn count(&self, rule: &BoundRule, key: KeyRef<'_>, decision: &RuleDecision<'_>) {
        let verdict = decision.verdict;
        self.observer.saw(rule.stats(), key, verdict);
        rule.stats().saw_ban(key, decision.outcomes());
        if !verdict.passes() {
            telemetry::denied(rule.stats(), verdict);
        }
    }

    /// The rules in force: those of namespaces, then those of domains, in order.
    #[must_use]
    pub fn rules(&self) -> Vec<Arc<BoundRule>> {
        let bounds = self.rules.load();
        let named = bounds.limits.values().flat_map(HashMap::values);
        let of_domains = bounds.domains.values().flat_map(Domain::bounds);
        let mut rules: Vec<_> = named.chain(of_domains).map(Arc::clone).collect();
        rules.sort_by(|a, b| {
            let place = |bound: &BoundRule| {
                let stats = bound.stats();
                [stats.domain(), stats.namespace(), bound.name()].map(str::to_owned)
            };
            place(a).cmp(&place(b))
        });
        rules
    }

    /// The results of configuration reloads.
    #[must_use]
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// The counts so far.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.observer
    }
}

impl BoundRules {
    /// Counts of rules that existed before continue; those of removed rules end.
    fn count_in(&self, observer: &Observer) {
        // Limits that come with requests have no name.
        let mut known = HashSet::from([["", "", ""]]);
        for (namespace, names) in &self.limits {
            for (name, bound) in names {
                bound.count_in(observer.rule(Scope::Namespace(namespace), name));
                known.insert([namespace, "", name]);
            }
        }
        for (domain, tree) in &self.domains {
            for bound in tree.bounds() {
                bound.count_in(observer.rule(Scope::Domain(domain), bound.name()));
                known.insert(["", domain, bound.name()]);
            }
        }
        observer.retain(|stats| known.contains(&[stats.namespace(), stats.domain(), stats.name()]));
    }

    fn new(store: &AnyStore, defaults: Defaults, rules: &RuleSet) -> Result<BoundRules, Problems> {
        let mut bounds = BoundRules::default();
        let mut binding = Binding::new(store, &defaults);
        for ((namespace, name), rule) in &rules.limits {
            let Some(bound) = binding.rule(namespace, rule) else { continue };
            let names = bounds.limits.entry(namespace[..].into()).or_default();
            names.insert(name[..].into(), bound);
        }
        for (name, descriptors) in &rules.domains {
            let domain = Domain::new(&mut binding, name, descriptors);
            bounds.domains.insert(name[..].into(), domain);
        }
        binding.end().map(|()| bounds)
    }
}
