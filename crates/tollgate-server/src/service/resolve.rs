//! The limit that a request names: a rule by its name, or a limit as text.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate::Policy;

use super::Service;
use super::bound::Bound;
use super::refusal::Refusal;

type ByText = HashMap<Box<str>, Arc<Bound>>;

/// Texts of limits seen before, by namespace. Emptied at its bound, as [`Given`](super::given::Given) is.
#[derive(Debug, Default)]
pub(crate) struct Texts(RwLock<HashMap<Box<str>, ByText>>);

/// How many namespaces, and texts in each, are kept at most.
const ROOM: usize = 1_000;

impl Texts {
    fn find(&self, namespace: &str, text: &str) -> Option<Arc<Bound>> {
        let read = self.0.read().unwrap_or_else(PoisonError::into_inner);
        read.get(namespace)?.get(text).cloned()
    }

    /// Forgets them: they were made for other defaults.
    pub(crate) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn keep(&self, namespace: &str, text: &str, bound: &Arc<Bound>) {
        let mut write = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if write.len() >= ROOM {
            write.clear();
        }
        let texts = write.entry(namespace.into()).or_default();
        if texts.len() >= ROOM {
            texts.clear();
        }
        texts.insert(text.into(), Arc::clone(bound));
    }
}

impl Service {
    /// The rule of that name; if there is none, the limit that the text describes: `"api"` or `"10/second"`.
    ///
    /// # Errors
    /// When it is neither, or the store cannot hold it.
    pub fn resolve(&self, namespace: &str, limit: &str) -> Result<Arc<Bound>, Refusal> {
        let known = self.find_named(namespace, limit);
        if let Some(bound) = known.or_else(|| self.texts.find(namespace, limit)) {
            return Ok(bound);
        }
        let policy: Policy = limit.parse().map_err(|error| {
            // Who wrote a number meant a limit; who did not, a name.
            if limit.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                Refusal::wrong(format!("limit {limit:?}: {error}"))
            } else {
                Refusal::unknown(namespace, limit)
            }
        })?;
        let bound = self.given(namespace, &policy)?;
        self.texts.keep(namespace, limit, &bound);
        Ok(bound)
    }
}
