//! The limits that a store knows: one number for each (namespace, limit identity), for ever as long as anybody could mean it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limit::Limit;

/// Locks, also after a panic elsewhere: what we guard is consistent between any two statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Named entries of type `E`, each made once.
#[derive(Debug)]
pub(crate) struct Registry<E> {
    inner: Mutex<Inner<E>>,
}

#[derive(Debug)]
struct Inner<E> {
    by_name: HashMap<(Box<str>, String), Arc<E>>,
    by_number: Vec<Option<Arc<E>>>,
    free: Vec<u32>,
}

impl<E> Registry<E> {
    pub(crate) fn new() -> Self {
        let inner = Inner { by_name: HashMap::new(), by_number: Vec::new(), free: Vec::new() };
        Registry { inner: Mutex::new(inner) }
    }

    /// The entry of this limit, made by `make` with its number if it is new.
    pub(crate) fn entry<X>(
        &self,
        namespace: &str,
        limit: &Limit,
        make: impl FnOnce(u32) -> Result<E, X>,
    ) -> Result<Arc<E>, X> {
        let mut inner = lock(&self.inner);
        let name = (namespace.into(), limit.identity());
        if let Some(entry) = inner.by_name.get(&name) {
            return Ok(Arc::clone(entry));
        }
        let fresh = u32::try_from(inner.by_number.len()).unwrap_or(u32::MAX);
        let number = inner.free.last().copied().unwrap_or(fresh);
        let entry = Arc::new(make(number)?);
        if inner.free.pop().is_none() {
            inner.by_number.push(None);
        }
        inner.by_number[number as usize] = Some(Arc::clone(&entry));
        inner.by_name.insert(name, Arc::clone(&entry));
        Ok(entry)
    }

    pub(crate) fn by_number(&self, number: u32) -> Option<Arc<E>> {
        lock(&self.inner).by_number.get(number as usize).cloned().flatten()
    }

    /// All entries of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<E>> {
        let inner = lock(&self.inner);
        let in_namespace = inner.by_name.iter().filter(|(name, _)| &*name.0 == namespace);
        in_namespace.map(|(_, entry)| Arc::clone(entry)).collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<E>> {
        lock(&self.inner).by_name.values().cloned().collect()
    }

    /// Forgets entries that nobody holds and that `unused` gives up.
    pub(crate) fn forget(&self, unused: impl Fn(&E) -> bool) {
        // One reference by name and one by number.
        const OURS: usize = 2;
        let mut inner = lock(&self.inner);
        let Inner { by_name, by_number, free } = &mut *inner;
        by_name.retain(|_, entry| Arc::strong_count(entry) > OURS || !unused(entry));
        for (number, place) in by_number.iter_mut().enumerate() {
            if place.as_ref().is_some_and(|entry| Arc::strong_count(entry) == 1) {
                *place = None;
                free.extend(u32::try_from(number));
            }
        }
    }
}
