//! Servers that tests share.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Servers that take long to start. Tests that run at the same time share them; the last user
/// stops them.
#[derive(Debug)]
pub struct Together<T>(Mutex<Weak<T>>);

impl<T> Together<T> {
    /// No servers yet.
    #[must_use]
    pub const fn new() -> Together<T> {
        Together(Mutex::new(Weak::new()))
    }

    /// The running servers, or new ones if none run.
    pub fn or_start(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let new = Arc::new(start());
            *shared = Arc::downgrade(&new);
            new
        })
    }
}

impl<T> Default for Together<T> {
    fn default() -> Self {
        Together::new()
    }
}
