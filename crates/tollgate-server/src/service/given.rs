//! Limits that come with requests, prepared once.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate::Policy;
use tollgate::shared::AnyStore;

use super::Defaults;
use super::bound::Bound;
use super::refusal::Refusal;

type Bounds = HashMap<(Box<str>, Policy), Arc<Bound>>;

/// A bounded cache. At the bound it is emptied: counts live in the store, so nothing is lost but the work to prepare.
#[derive(Debug)]
pub(crate) struct Given {
    bounds: RwLock<Bounds>,
    room: usize,
}

impl Given {
    pub(crate) fn new(room: usize) -> Given {
        Given { bounds: RwLock::default(), room: room.max(1) }
    }

    /// Forgets what was prepared: it was made for other defaults.
    pub(crate) fn clear(&self) {
        self.bounds.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn bound(
        &self,
        store: &AnyStore,
        defaults: &Defaults,
        namespace: &str,
        policy: &Policy,
    ) -> Result<Arc<Bound>, Refusal> {
        let key = (Box::from(namespace), policy.clone());
        let read = self.bounds.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = read.get(&key) {
            return Ok(Arc::clone(bound));
        }
        drop(read);
        // Apart from the namespaces of rules.
        let apart = format!("~{namespace}");
        let bound = Arc::new(Bound::bare(store, defaults, &apart, policy)?);
        let mut write = self.bounds.write().unwrap_or_else(PoisonError::into_inner);
        if write.len() >= self.room {
            write.clear();
        }
        Ok(Arc::clone(write.entry(key).or_insert(bound)))
    }
}
