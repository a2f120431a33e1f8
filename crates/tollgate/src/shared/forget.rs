//! Denials that may be wrong from now on.

use super::asking::Limits;
use super::{Guard, SharedStore};
use crate::key::Key;

/// Forgets the remembered denials of a key, now and when the call that gives something back has ended, however it ended.
pub(super) struct Forget<'a, S: SharedStore, K: Key> {
    limits: &'a Limits<S>,
    key: &'a K,
}

impl<'a, S: SharedStore, K: Key> Forget<'a, S, K> {
    pub(super) fn new(limits: &'a Limits<S>, key: &'a K) -> Self {
        let forget = Forget { limits, key };
        forget.now();
        forget
    }

    fn now(&self) {
        self.key.with_key(|key| self.limits.store.guard().denials.forget(key));
    }
}

impl<S: SharedStore, K: Key> Drop for Forget<'_, S, K> {
    fn drop(&mut self) {
        self.now();
    }
}

/// The same for all keys.
pub(super) struct ForgetAll<'a>(&'a Guard);

impl<'a> ForgetAll<'a> {
    pub(super) fn new(guard: &'a Guard) -> Self {
        guard.denials.clear();
        ForgetAll(guard)
    }
}

impl Drop for ForgetAll<'_> {
    fn drop(&mut self) {
        self.0.denials.clear();
    }
}
