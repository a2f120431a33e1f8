//! Servers of one's own, gone when they are dropped.

mod certificates;
mod cluster;
mod sentinels;
mod server;

pub(crate) use certificates::Certificates;
pub(crate) use cluster::Cluster;
pub(crate) use sentinels::{NAME, Sentinels};
pub(crate) use server::{Server, free_port};

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tollgate::{Clock, SystemClock};

/// How long a server may take to come up, and anything else that must happen at last.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is true, for as long as a slow machine may need.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let begin = clock.now();
    while !holds() {
        assert!(clock.now().since(begin) < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Servers that take long to set up: tests that run at the same time share them, and who is last stops them.
#[derive(Debug)]
pub(crate) struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Shared<T> {
        Shared(Mutex::new(Weak::new()))
    }

    pub(crate) fn or_start(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let new = Arc::new(start());
            *shared = Arc::downgrade(&new);
            new
        })
    }
}
