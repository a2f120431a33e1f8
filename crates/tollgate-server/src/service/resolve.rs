//! The limit that a request names: a rule by its name, or a limit as text.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use tollgate::Policy;

use super::Service;
use super::bound_rule::BoundRule;
use super::error::RequestError;

/// Texts of limits that came with requests lately, so that they need not be parsed again. The
/// limits themselves are kept in [`Given`](super::given::Given): a limit that is dropped there is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Texts(RwLock<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_namespace: HashMap<Box<str>, HashMap<Box<str>, Weak<BoundRule>>>,
    /// The texts in all namespaces.
    texts: usize,
}

/// How many texts are kept at most. At the bound all are dropped.
const MAX_TEXTS: usize = 10_000;

/// The longest text that is kept, in bytes: a text can have any number of blanks. Longer texts are
/// parsed each time.
const MAX_TEXT: usize = 1_024;

impl Texts {
    fn find(&self, namespace: &str, text: &str) -> Option<Arc<BoundRule>> {
        let read = self.0.read().unwrap_or_else(PoisonError::into_inner);
        read.by_namespace.get(namespace)?.get(text)?.upgrade()
    }

    /// Forgets them: they were made for other defaults.
    pub(crate) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }

    fn keep(&self, namespace: &str, text: &str, bound: &Arc<BoundRule>) {
        if text.len() > MAX_TEXT {
            return;
        }
        let mut write = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if write.texts >= MAX_TEXTS {
            *write = Kept::default();
        }
        let texts = write.by_namespace.entry(namespace.into()).or_default();
        if texts.insert(text.into(), Arc::downgrade(bound)).is_none() {
            write.texts += 1;
        }
    }
}

impl Service {
    /// The rule of that name; if there is none, the limit that the text describes: `"api"` or
    /// `"10/second"`.
    ///
    /// # Errors
    /// When it is neither, or the store cannot hold it.
    pub fn resolve(&self, namespace: &str, limit: &str) -> Result<Arc<BoundRule>, RequestError> {
        let known = self.find_named(namespace, limit);
        if let Some(bound) = known.or_else(|| self.texts.find(namespace, limit)) {
            return Ok(bound);
        }
        let policy: Policy = limit.parse().map_err(|error| {
            // Who wrote a number meant a limit; who did not, a name.
            if limit.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                RequestError::invalid(format!("limit {limit:?}: {error}"))
            } else {
                RequestError::unknown_rule(namespace, limit)
            }
        })?;
        let bound = self.given(namespace, &policy)?;
        self.texts.keep(namespace, limit, &bound);
        Ok(bound)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Memory;
    use tollgate::shared::{AnyStore, InProcess};

    use super::*;
    use crate::rules::RuleSet;
    use crate::service::Defaults;

    fn service() -> Service {
        let store = AnyStore::new(InProcess::new(Memory::new()));
        Service::new(store, Defaults::default(), &RuleSet::default()).unwrap()
    }

    fn texts(service: &Service) -> usize {
        let kept = service.texts.0.read().unwrap();
        let texts = kept.by_namespace.values().map(HashMap::len).sum();
        assert_eq!(kept.texts, texts);
        texts
    }

    #[test]
    fn texts_are_bounded_over_all_namespaces() {
        let service = service();
        let bound = service.given("", &"1/day".parse().unwrap()).unwrap();
        for number in 0..2 * MAX_TEXTS {
            service.texts.keep(&(number / 3).to_string(), &format!("{number}/day"), &bound);
        }
        assert_eq!(texts(&service), MAX_TEXTS);
    }

    #[test]
    fn long_texts_are_not_kept() {
        let service = service();
        let long = format!("1/day{}", " ".repeat(MAX_TEXT));
        let bound = service.resolve("", &long).unwrap();
        assert_eq!(texts(&service), 0);
        assert!(Arc::ptr_eq(&bound, &service.resolve("", "1/day").unwrap()), "both are one limit");
        assert_eq!(texts(&service), 1);
    }
}
