//! Limits that come with requests, prepared once.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use tollgate::Policy;
use tollgate::shared::AnyStore;

use super::Defaults;
use super::bound_rule::BoundRule;
use super::error::RequestError;

/// The longest namespace that a request may bring, in bytes.
const MAX_NAMESPACE: usize = 255;

/// A bounded cache. A store keeps each limit in it prepared, so it counts limits and not policies.
/// Its bytes are bounded too, because the lengths of namespaces and of the names of limits are. At
/// the bound the cache is emptied: counts live in the store, so only the preparation is repeated.
#[derive(Debug)]
pub(crate) struct Given {
    kept: RwLock<Kept>,
    max_limits: usize,
}

#[derive(Debug, Default)]
struct Kept {
    bounds: HashMap<(Box<str>, Policy), Arc<BoundRule>>,
    /// The limits in all of them.
    limits: usize,
}

impl Given {
    pub(crate) fn new(max_limits: usize) -> Given {
        Given { kept: RwLock::default(), max_limits }
    }

    /// Forgets what was prepared: it was made for other defaults.
    pub(crate) fn clear(&self) {
        let kept = std::mem::take(&mut *self.write());
        // After the lock is released: it may be much.
        drop(kept);
    }

    pub(crate) fn bound(
        &self,
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        policy: &Policy,
    ) -> Result<Arc<BoundRule>, RequestError> {
        let key = (Box::from(namespace), policy.clone());
        let read = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = read.bounds.get(&key) {
            return Ok(Arc::clone(bound));
        }
        let is_full = read.limits + policy.limits().len() > self.max_limits;
        drop(read);
        if namespace.len() > MAX_NAMESPACE {
            return Err(RequestError::invalid(format!(
                "namespace of {} bytes: must be at most {MAX_NAMESPACE} bytes long",
                namespace.len()
            )));
        }
        if is_full {
            // Before the preparation, so that the store can drop a limit for the new one.
            self.clear();
        }
        // Apart from the namespaces of rules.
        let apart = format!("~{namespace}");
        let bound = Arc::new(BoundRule::bare(store, defaults, &apart, policy)?);
        let mut write = self.write();
        if let Some(bound) = write.bounds.get(&key) {
            return Ok(Arc::clone(bound));
        }
        write.limits += policy.limits().len();
        write.bounds.insert(key, Arc::clone(&bound));
        Ok(bound)
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

    fn service<S: tollgate::Store + std::fmt::Debug + 'static>(store: S, given: usize) -> Service {
        let store = AnyStore::new(InProcess::new(store));
        let defaults = Defaults { given, ..Defaults::default() };
        Service::new(store, defaults, &RuleSet::default()).unwrap()
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
        assert!(service.given.kept.read().unwrap().limits <= LIMITS / 2);
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
}
