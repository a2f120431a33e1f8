//! Where callers of one process meet: what waits for the same cells is decided in order and written at once.
//!
//! A desk is there as long as somebody works at it. Who finds none opens it and starts a task that takes everything that waits, again and again,
//! until nothing does. The task belongs to no caller: who walks away holds up nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::MutexGuard as Held;

use crate::act::Job;
use crate::cells::Name;

const SHARDS: usize = 64;

/// Locks of cells. Two cells may have one, and then wait for each other in vain, which is rare.
const LOCKS: usize = 1024;

type Shard = HashMap<Arc<[Name]>, Vec<Job>, RandomState>;

#[derive(Debug)]
pub(crate) struct Desks {
    shards: Box<[Mutex<Shard>]>,
    /// For desks that have a cell in common.
    locks: Box<[tokio::sync::Mutex<()>]>,
}

impl Desks {
    /// `overlap` if different desks may have a cell in common.
    pub(crate) fn new(overlap: bool) -> Desks {
        Desks {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            locks: (0..if overlap { LOCKS } else { 0 }).map(|_| Default::default()).collect(),
        }
    }

    fn shard(&self, names: &[Name]) -> MutexGuard<'_, Shard> {
        // Desks that begin with one cell have one shard.
        let index = names.first().map_or(0, |name| name.shard(SHARDS));
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job in the queue of these cells; true if nobody works there, and the caller must see to it.
    pub(crate) fn put(&self, names: &Arc<[Name]>, job: Job) -> bool {
        let mut shard = self.shard(names);
        if let Some(waiting) = shard.get_mut(names) {
            waiting.push(job);
            return false;
        }
        shard.insert(Arc::clone(names), vec![job]);
        true
    }

    /// Everything that waits. If nothing does, the desk is closed.
    pub(crate) fn take(&self, names: &[Name]) -> Vec<Job> {
        let mut shard = self.shard(names);
        let waiting = shard.get_mut(names).map(std::mem::take).unwrap_or_default();
        if waiting.is_empty() {
            shard.remove(names);
        }
        waiting
    }

    /// Closes the desk, whoever waits: their callers are told that nobody will answer.
    pub(crate) fn close(&self, names: &[Name]) {
        let waiting = self.shard(names).remove(names);
        drop(waiting);
    }

    /// Keeps other desks from the same cells. In order, so that no two wait for each other.
    pub(crate) async fn hold(&self, names: &[Name]) -> Vec<Held<'_, ()>> {
        if self.locks.is_empty() {
            return Vec::new();
        }
        let lock = |name: &Name| name.shard(self.locks.len());
        let mut indexes: Vec<usize> = names.iter().map(lock).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let mut held = Vec::with_capacity(indexes.len());
        for index in indexes {
            held.push(self.locks[index].lock().await);
        }
        held
    }
}
