//! Limits that come with requests, prepared once.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use foldhash::fast::RandomState;
use tollgate::shared::AnyStore;
use tollgate::{Algorithm, Limit, Policy};

use super::Defaults;
use super::bound_rule::BoundRule;
use super::error::RequestError;

/// The longest namespace that a request may bring, in bytes.
const MAX_NAMESPACE: usize = 255;

/// The most texts that are kept. At the bound all texts are dropped.
const MAX_TEXTS: usize = 10_000;

/// The longest text that is kept, in bytes: a text can have any number of blanks. Longer texts are
/// parsed each time.
const MAX_TEXT: usize = 1_024;

/// Limits that came with requests, by policy and by the text of the request, so that a repeated
/// text need not be parsed.
///
/// Bounded: a store keeps each limit in it prepared, so it counts limits and not policies. Its
/// bytes are bounded too, because the lengths of namespaces, texts and names are. At the bound the
/// cache is emptied: counts live in the store, so only the preparation is repeated.
#[derive(Debug)]
pub(crate) struct InlineLimitCache {
    kept: RwLock<Kept>,
    /// Set when the server starts: half of what the store holds.
    max_limits: usize,
}

type ByBytes<T> = HashMap<Box<[u8]>, T, RandomState>;

#[derive(Debug)]
struct Kept {
    /// The defaults with which all of the rules were prepared.
    defaults: Defaults,
    by_policy: HashMap<(Box<str>, Policy), Arc<BoundRule>>,
    /// The limits in all policies.
    limits: usize,
    /// Rules by namespace and text. Only rules that are in `by_policy` too.
    by_text: ByBytes<ByBytes<Arc<BoundRule>>>,
    /// The texts in all namespaces.
    texts: usize,
}

impl Kept {
    fn new(defaults: Defaults) -> Kept {
        let (by_policy, by_text) = (HashMap::default(), HashMap::default());
        Kept { defaults, by_policy, limits: 0, by_text, texts: 0 }
    }

    fn keep_text(&mut self, namespace: &[u8], text: &[u8], rule: &Arc<BoundRule>) {
        if text.len() > MAX_TEXT {
            return;
        }
        if self.texts >= MAX_TEXTS {
            (self.by_text, self.texts) = (HashMap::default(), 0);
        }
        let texts = self.by_text.entry(namespace.into()).or_default();
        if texts.insert(text.into(), Arc::clone(rule)).is_none() {
            self.texts += 1;
        }
    }
}

impl InlineLimitCache {
    pub(super) fn new(defaults: Defaults) -> InlineLimitCache {
        InlineLimitCache {
            kept: RwLock::new(Kept::new(defaults)),
            max_limits: defaults.max_inline_limits,
        }
    }

    /// Forgets all limits if they were prepared with other defaults.
    pub(super) fn replace(&self, defaults: Defaults) {
        let mut write = self.write();
        if write.defaults != defaults {
            let old = std::mem::replace(&mut *write, Kept::new(defaults));
            // The old limits are freed after the lock is released, because there may be many.
            drop(write);
            drop(old);
        }
    }

    /// The limit of a text that was [kept](InlineLimitCache::get_or_prepare).
    #[inline]
    pub(crate) fn find(&self, namespace: &[u8], text: &[u8]) -> Option<Arc<BoundRule>> {
        let read = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        read.by_text.get(namespace)?.get(text).map(Arc::clone)
    }

    /// The limit of a policy, prepared if it is new, and kept by `text`, which is a namespace of
    /// texts and a text. `prepared` gets a new rule before any request does.
    pub(super) fn get_or_prepare(
        &self,
        store: &AnyStore,
        namespace: &str,
        policy: &Policy,
        text: Option<(&[u8], &[u8])>,
        prepared: impl FnOnce(&BoundRule),
    ) -> Result<Arc<BoundRule>, RequestError> {
        let key = (Box::from(namespace), policy.clone());
        let read = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let (found, defaults) = (read.by_policy.get(&key).map(Arc::clone), read.defaults);
        let is_full = read.limits + policy.limits().len() > self.max_limits;
        drop(read);
        let rule = match found {
            Some(rule) if text.is_none() => return Ok(rule),
            Some(rule) => rule,
            None => {
                if namespace.len() > MAX_NAMESPACE {
                    return Err(RequestError::invalid(format!(
                        "namespace of {} bytes: must be at most {MAX_NAMESPACE} bytes long",
                        namespace.len()
                    )));
                }
                let budget = |limit: &&Limit| limit.algorithm() == Algorithm::Budget;
                if let Some(limit) = policy.limits().iter().find(budget) {
                    return Err(RequestError::invalid(format!(
                        "limit {limit}: a budget is kept for ever, so only rules may have one"
                    )));
                }
                if is_full {
                    // The cache is emptied before the preparation, so that the store can drop a
                    // limit for the new one.
                    let mut write = self.write();
                    let empty = Kept::new(write.defaults);
                    let old = std::mem::replace(&mut *write, empty);
                    drop(write);
                    drop(old);
                }
                // The namespace differs from those of rules.
                let apart = format!("~{namespace}");
                let rule = BoundRule::from_policy(store, &defaults, &apart, policy)?;
                prepared(&rule);
                Arc::new(rule)
            }
        };
        let mut write = self.write();
        if write.defaults != defaults {
            // The defaults were replaced meanwhile: the rule serves this request only.
            return Ok(rule);
        }
        let rule = match write.by_policy.get(&key) {
            Some(rule) => Arc::clone(rule),
            None => {
                write.limits += policy.limits().len();
                write.by_policy.insert(key, Arc::clone(&rule));
                rule
            }
        };
        if let Some((namespace, text)) = text {
            write.keep_text(namespace, text, &rule);
        }
        Ok(rule)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::shared::InProcess;
    use tollgate::{ManualClock, Memory, Timestamp};

    use super::super::Service;
    use super::*;
    use crate::rules::RuleSet;

    fn service<S: tollgate::Store + std::fmt::Debug + 'static>(
        store: S,
        max_inline_limits: usize,
    ) -> Service {
        let store = AnyStore::new(InProcess::new(store));
        let defaults = Defaults { max_inline_limits, ..Defaults::default() };
        Service::new(store, defaults, &RuleSet::default()).unwrap()
    }

    fn texts(service: &Service) -> usize {
        let kept = service.inline_limits.kept.read().unwrap();
        let texts = kept.by_text.values().map(HashMap::len).sum();
        assert_eq!(kept.texts, texts);
        texts
    }

    #[test]
    fn store_forgets_the_limits_that_the_cache_drops() {
        const LIMITS: usize = 20;
        let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let store = Memory::builder().clock(clock.clone()).max_limits(LIMITS).build();
        let service = service(store.clone(), LIMITS / 2);
        for number in 0..50 * LIMITS {
            let namespace = format!("tenant {number}");
            let both = service.resolve(&namespace, "5/minute; 10/hour");
            let both = both.unwrap_or_else(|error| panic!("limit {number}: {error}"));
            let again = service.resolve(&namespace, "5/minute; 10/hour").unwrap();
            assert!(Arc::ptr_eq(&both, &again), "it is cached");
            clock.advance(Duration::from_secs(60));
        }
        assert!(store.limits() <= LIMITS);
        assert!(service.inline_limits.kept.read().unwrap().limits <= LIMITS / 2);
    }

    #[test]
    fn namespace_is_at_most_as_long_as_the_bound() {
        let service = service(Memory::new(), 100);
        let resolve = |bytes| service.resolve(&"n".repeat(bytes), "1/day");
        assert!(resolve(MAX_NAMESPACE).is_ok());
        let error = resolve(MAX_NAMESPACE + 1).unwrap_err();
        let says = "namespace of 256 bytes: must be at most 255 bytes long";
        assert_eq!(error.to_string(), says);
    }

    #[test]
    fn texts_are_bounded_over_all_namespaces() {
        let service = service(Memory::new(), 100);
        let policy: Policy = "1/day".parse().unwrap();
        for number in 0..2 * MAX_TEXTS {
            let (namespace, text) = ((number / 3).to_string(), format!("{number}/day"));
            let text = Some((namespace.as_bytes(), text.as_bytes()));
            service.inline_limit("", &policy, text).unwrap();
        }
        assert_eq!(texts(&service), MAX_TEXTS);
    }

    #[test]
    fn long_texts_are_not_kept() {
        let service = service(Memory::new(), 100);
        let long = format!("1/day{}", " ".repeat(MAX_TEXT));
        let rule = service.resolve("", &long).unwrap();
        assert_eq!(texts(&service), 0);
        assert!(Arc::ptr_eq(&rule, &service.resolve("", "1/day").unwrap()), "both are one limit");
        assert_eq!(texts(&service), 1);
    }

    #[test]
    fn limits_are_prepared_anew_with_other_defaults() {
        let service = service(Memory::new(), 100);
        let rule = service.resolve("", "1/day").unwrap();
        let same = Defaults { max_inline_limits: 100, ..Defaults::default() };
        service.replace(same, &RuleSet::default()).unwrap();
        assert!(Arc::ptr_eq(&rule, &service.resolve("", "1/day").unwrap()));
        let other = Defaults { deadline: Some(Duration::from_secs(1)), ..same };
        service.replace(other, &RuleSet::default()).unwrap();
        assert!(!Arc::ptr_eq(&rule, &service.resolve("", "1/day").unwrap()));
    }
}
