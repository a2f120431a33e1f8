//! The limits that a store knows. Each pair of a namespace and a limit identity has a number until
//! the store forgets it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::keyed::lock;
use crate::limit::Limit;
use crate::time::Timestamp;

/// The namespace and the identity of a limit.
type Name = (Box<str>, String);

/// Numbered entries of type `E`: one per name, and at most `max` in all.
#[derive(Debug)]
pub(crate) struct Registry<E> {
    inner: Mutex<Inner<E>>,
    max: usize,
    /// The time from which the store may be cleaned again to make room for an entry, in
    /// microseconds.
    clean_due: AtomicU64,
}

#[derive(Debug)]
struct Inner<E> {
    by_name: HashMap<Arc<Name>, Arc<E>>,
    by_number: Vec<Option<(Arc<Name>, Arc<E>)>>,
    free: Vec<u32>,
}

/// The error for a store that has reached its bound on limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    max: usize,
}

impl From<Full> for Error {
    fn from(Full { max }: Full) -> Error {
        Error::request(format!(
            "{max} limits: the store may not hold more (max_limits), and all of them are in use"
        ))
    }
}

impl<E> Registry<E> {
    pub(crate) fn new(max: usize) -> Self {
        let inner = Inner { by_name: HashMap::new(), by_number: Vec::new(), free: Vec::new() };
        Registry { inner: Mutex::new(inner), max, clean_due: AtomicU64::new(0) }
    }

    /// Returns the entry of this limit, and whether it is new. `make` creates a new entry from its
    /// number.
    pub(crate) fn entry(
        &self,
        namespace: &str,
        limit: &Limit,
        make: impl FnOnce(u32) -> E,
    ) -> Result<(Arc<E>, bool), Full> {
        let mut inner = lock(&self.inner);
        let name = (namespace.into(), limit.identity());
        if let Some(entry) = inner.by_name.get(&name) {
            return Ok((Arc::clone(entry), false));
        }
        if inner.by_name.len() >= self.max {
            return Err(Full { max: self.max });
        }
        let number = inner.free.pop().unwrap_or_else(|| {
            inner.by_number.push(None);
            u32::try_from(inner.by_number.len() - 1).unwrap_or(u32::MAX)
        });
        let (name, entry) = (Arc::new(name), Arc::new(make(number)));
        inner.by_number[number as usize] = Some((Arc::clone(&name), Arc::clone(&entry)));
        inner.by_name.insert(name, Arc::clone(&entry));
        Ok((entry, true))
    }

    /// Returns whether to clean the whole store now to make room for an entry. Returns true at most
    /// once in `pause` microseconds, so that callers at the bound do not clean again and again.
    pub(crate) fn is_cleaning_due(&self, now: Timestamp, pause: u64) -> bool {
        let next = now.plus(pause).as_micros();
        let is_due = |due| (now.as_micros() >= due).then_some(next);
        self.clean_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.inner).by_name.len()
    }

    /// Returns a number that is above the numbers of all entries.
    pub(crate) fn numbers(&self) -> usize {
        lock(&self.inner).by_number.len()
    }

    pub(crate) fn by_number(&self, number: u32) -> Option<Arc<E>> {
        let inner = lock(&self.inner);
        let (_, entry) = inner.by_number.get(number as usize)?.as_ref()?;
        Some(Arc::clone(entry))
    }

    /// Returns all entries of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<E>> {
        let inner = lock(&self.inner);
        let in_namespace = inner.by_name.iter().filter(|(name, _)| &*name.0 == namespace);
        in_namespace.map(|(_, entry)| Arc::clone(entry)).collect()
    }

    /// Forgets the entry of this number if it has no other owner and `unused` returns true.
    pub(crate) fn forget(&self, number: usize, unused: impl Fn(&E) -> bool) {
        // The registry itself has two references: one by name and one by number.
        const OURS: usize = 2;
        let mut inner = lock(&self.inner);
        let Inner { by_name, by_number, free } = &mut *inner;
        let Some(place) = by_number.get_mut(number) else { return };
        let unused =
            |(_, entry): &mut (_, Arc<E>)| Arc::strong_count(entry) == OURS && unused(entry);
        if let Some((name, _)) = place.take_if(unused) {
            by_name.remove(&name);
            free.extend(u32::try_from(number));
        }
    }
}
