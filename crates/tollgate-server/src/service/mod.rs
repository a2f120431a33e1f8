//! What all ports have in common: a question goes in, an answer comes out.

mod answer;
mod binding;
mod bound_rule;
mod domain;
mod error;
mod given;
mod limiter;
mod resolve;
mod together;

pub use answer::{Answer, Verdict};
pub use bound_rule::BoundRule;
pub use domain::{DescriptorKey, Entry, Match};
pub use error::{RequestError, RequestErrorKind};
pub use limiter::{Limiter, Operation};
pub use together::Item;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate::shared::{AnyStore, OnFailure};
use tollgate::{Key, Policy};

use crate::config::Problems;
use crate::observe::{Observer, Scope};
use crate::reload::Reloads;
use crate::rules::RuleSet;
use crate::settings::StoreSettings;
use crate::telemetry;
use binding::Binding;
use domain::Domain;
use given::Given;
use resolve::Texts;

/// Rules on a store, replaced as a whole when the configuration changes.
#[derive(Debug)]
pub struct Service {
    store: AnyStore,
    rules: ArcSwap<BoundRules>,
    /// How often they were replaced.
    edition: AtomicU64,
    given: Given,
    texts: Texts,
    observer: Observer,
    reloads: Reloads,
}

/// What holds for all rules that do not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// What to answer when the store does not.
    pub on_failure: OnFailure,
    /// How long the store may take, instead of what it was opened with.
    pub deadline: Option<Duration>,
    /// How many limits that came with requests are kept prepared at most.
    pub given: usize,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { on_failure: OnFailure::Error, deadline: None, given: 10_000 }
    }
}

impl From<&StoreSettings> for Defaults {
    fn from(store: &StoreSettings) -> Self {
        let defaults = Defaults { on_failure: store.on_failure, ..Defaults::default() };
        // Limits that are kept prepared are never forgotten by the store: leave half of it to
        // others.
        let half = store.max_limits.map_or(usize::MAX, |max| max / 2);
        Defaults { given: defaults.given.min(half), ..defaults }
    }
}

/// Things by their name, looked up without copying it.
type Names<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// The rules in force.
#[derive(Debug, Default)]
struct BoundRules {
    defaults: Defaults,
    /// By namespace and name.
    limits: Names<Names<Arc<BoundRule>>>,
    domains: Names<Domain>,
}

impl Service {
    /// These rules on this store.
    ///
    /// # Errors
    /// When the store cannot hold some of the limits: all of them, by file and line.
    pub fn new(store: AnyStore, defaults: Defaults, rules: &RuleSet) -> Result<Service, Problems> {
        let observer = Observer::default();
        let bounds = BoundRules::new(&store, defaults, rules)?;
        bounds.count_in(&observer);
        let given = Given::new(defaults.given);
        Ok(Service {
            store,
            rules: ArcSwap::from_pointee(bounds),
            edition: AtomicU64::new(0),
            given,
            texts: Texts::default(),
            observer,
            reloads: Reloads::default(),
        })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Puts other rules in force. Counters of limits that keep their name, algorithm and period
    /// stay.
    ///
    /// # Errors
    /// When the store cannot hold some of the limits: all of them, by file and line. Then the old
    /// rules stay in force.
    pub fn replace(&self, defaults: Defaults, rules: &RuleSet) -> Result<(), Problems> {
        let bounds = BoundRules::new(&self.store, defaults, rules)?;
        bounds.count_in(&self.observer);
        let before = self.rules.swap(Arc::new(bounds));
        if before.defaults != defaults {
            self.texts.clear();
            self.given.clear();
        }
        // Last: who sees it finds what is new.
        self.edition.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The rule of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(&self, namespace: &str, name: &str) -> Result<Arc<BoundRule>, RequestError> {
        self.find_named(namespace, name).ok_or_else(|| RequestError::unknown_rule(namespace, name))
    }

    pub(crate) fn find_named(&self, namespace: &str, name: &str) -> Option<Arc<BoundRule>> {
        self.rules.load().limits.get(namespace)?.get(name).cloned()
    }

    /// The rule of a domain for a descriptor, given as its entries; `None` if there is no limit on
    /// it.
    #[must_use]
    pub fn matching<E: Entry>(&self, domain: &str, entries: &[E]) -> Option<Match> {
        let rules = self.rules.load();
        let Some(domain) = rules.domains.get(domain) else {
            self.observer.unknown_domain();
            return None;
        };
        domain.find(entries)
    }

    /// A policy that came with a request, prepared once. Its counters are not those of rules.
    ///
    /// # Errors
    /// When the store cannot hold it.
    pub fn given(&self, namespace: &str, policy: &Policy) -> Result<Arc<BoundRule>, RequestError> {
        let defaults = self.rules.load().defaults;
        let bound = self.given.bound(&self.store, &defaults, namespace, policy)?;
        // All of them together: how many there are is up to clients.
        bound.count_in(self.observer.rule(Scope::Namespace(""), ""));
        Ok(bound)
    }

    /// A number that is another one when what was [found](Service::resolve) or
    /// [given](Service::given) has to be looked for again.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Asks one thing of one key.
    ///
    /// # Errors
    /// When the store does not answer and no rule says what to do then.
    pub async fn ask<K: Key>(
        &self,
        bound: &BoundRule,
        key: K,
        operation: Operation,
    ) -> Result<Answer, RequestError> {
        if let Operation::Hit(cost) = operation
            && let Some(answer) = self.hit_now(bound, &key, cost)
        {
            return Ok(answer);
        }
        let answer = bound.ask(&key, operation).await;
        match &answer {
            Ok(answer) if matches!(operation, Operation::Hit(_) | Operation::Take(_)) => {
                self.saw(bound, &key, answer.verdict);
            }
            Err(error) if error.is_of_store() => bound.stats().failed(),
            Ok(_) | Err(_) => {}
        }
        answer
    }

    /// A hit without a future, where nobody has to be waited for, as on a store in this process;
    /// `None` where somebody has, and then nothing was asked.
    #[inline]
    pub fn hit_now<K: Key + ?Sized>(
        &self,
        bound: &BoundRule,
        key: &K,
        cost: u64,
    ) -> Option<Answer> {
        let answer = bound.hit_now(key, cost)?;
        self.saw(bound, key, answer.verdict);
        Some(answer)
    }

    /// Counts a hit.
    fn saw<K: Key + ?Sized>(&self, bound: &BoundRule, key: &K, verdict: Verdict) {
        key.with_key(|key| self.observer.saw(bound.stats(), key, verdict));
        if !verdict.passes() {
            telemetry::denied(bound.stats(), verdict);
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

    /// What became of changes of the configuration.
    #[must_use]
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// What was seen so far.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.observer
    }
}

impl BoundRules {
    /// Counts of rules that were there before go on; those of rules that are no more end.
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
        let mut bounds = BoundRules { defaults, ..BoundRules::default() };
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
