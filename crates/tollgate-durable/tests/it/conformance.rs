//! The conformance suite at every level.

use std::time::Duration;

use tollgate::shared::SharedStore;
use tollgate::{Clock, KeyRef, Limit, SystemClock};
use tollgate_durable::{Durable, DurableBuilder, Level};
use tollgate_testkit::{Kept, Subject, block_on, conformance};
use tollgate_testservers::Directory;

use crate::disk::Disk;

/// A store under test.
struct OnDisk {
    store: Durable,
    /// `None`: the store is in a file, in this directory.
    disk: Option<Disk>,
    _directory: Option<Directory>,
    tells_lifetimes: bool,
}

/// The suite passes its own times, so the clock must not clean.
fn open(builder: DurableBuilder) -> Durable {
    let builder = builder.clean_period(Duration::from_secs(3600));
    builder.open().unwrap_or_else(|error| panic!("{error}"))
}

impl OnDisk {
    fn on_a_file() -> OnDisk {
        let directory = Directory::new();
        let path = directory.path().join("limits").display().to_string();
        let store = open(Durable::builder(path));
        OnDisk { store, disk: None, _directory: Some(directory), tells_lifetimes: true }
    }

    fn at(level: Level) -> OnDisk {
        let disk = Disk::default();
        let store = open(disk.builder().level(level));
        let waits = matches!(level, Level::Reserve | Level::Sync);
        OnDisk { store, disk: waits.then_some(disk), _directory: None, tells_lifetimes: waits }
    }
}

impl Subject for OnDisk {
    type Store = Durable;

    fn store(&self) -> Durable {
        self.store.clone()
    }

    fn kept(&self, namespace: &str, limit: &Limit, key: KeyRef<'_>) -> Option<Kept> {
        if !self.tells_lifetimes {
            return None;
        }
        let until = block_on(self.store.kept_until(namespace, limit.clone(), key));
        let until = until.unwrap_or_else(|error| panic!("{error}"));
        let left = |until: tollgate::Timestamp| Kept::For(until.since(SystemClock::new().now()));
        Some(until.map_or(Kept::Nothing, left))
    }

    fn break_store(&self) -> bool {
        let Some(disk) = &self.disk else { return false };
        disk.fail(true);
        // The error appears with the next write.
        block_on(self.store.check()).expect_err("a broken disk");
        true
    }

    fn mend_store(&self) {
        if let Some(disk) = &self.disk {
            disk.fail(false);
        }
    }
}

conformance!(reserve, || OnDisk::at(Level::Reserve), lifetime, outage);
conformance!(sync, || OnDisk::at(Level::Sync), lifetime, outage);
conformance!(interval, || OnDisk::at(Level::Interval));
conformance!(none, || OnDisk::at(Level::None));
conformance!(file, OnDisk::on_a_file, lifetime);
