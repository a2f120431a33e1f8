//! Where callers of one process meet: what waits for the same cells is decided in order and written
//! at once.
//!
//! A desk is there as long as somebody works at it. Who finds none opens it and takes everything
//! that waits, again and again, until nothing does. As soon as somebody else waits there the work
//! is a task's (`lead.rs`): who walks away holds up nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::MutexGuard as Held;

use crate::act::Job;
use crate::cells::Name;
use crate::lead::Lead;

const SHARDS: usize = 64;

/// Locks of cells. Two cells may have one, and then wait for each other in vain, which is rare.
const LOCKS: usize = 1024;

type Shard = HashMap<Arc<[Name]>, Desk, RandomState>;

#[derive(Debug)]
struct Desk {
    waiting: Vec<Job>,
    /// Of the caller who works there, as long as it is no task.
    lead: Option<Arc<Lead>>,
}

/// What became of a job.
pub(crate) enum Put {
    /// Nobody works there: the caller must see to it.
    Opened(Option<Arc<Lead>>),
    /// Somebody does.
    Joined,
}

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

    /// Puts a job in the queue of these cells. `lead` is for who opens the desk.
    pub(crate) fn put(
        &self,
        names: &Arc<[Name]>,
        job: Job,
        lead: impl FnOnce() -> Option<Arc<Lead>>,
    ) -> Put {
        let mut shard = self.shard(names);
        let Some(desk) = shard.get_mut(names) else {
            let lead = lead();
            shard.insert(Arc::clone(names), Desk { waiting: vec![job], lead: lead.clone() });
            return Put::Opened(lead);
        };
        desk.waiting.push(job);
        let alone = desk.lead.take();
        drop(shard);
        if let Some(lead) = alone {
            lead.make_task();
        }
        Put::Joined
    }

    /// Everything that waits. If nothing does, the desk is closed.
    pub(crate) fn take(&self, names: &[Name]) -> Vec<Job> {
        let mut shard = self.shard(names);
        let desk = shard.get_mut(names);
        let waiting = desk.map(|desk| std::mem::take(&mut desk.waiting)).unwrap_or_default();
        if waiting.is_empty() {
            shard.remove(names);
        }
        waiting
    }

    /// Closes the desk, whoever waits: their callers are told that nobody will answer.
    pub(crate) fn close(&self, names: &[Name]) {
        let desk = self.shard(names).remove(names);
        drop(desk);
    }

    /// Whether different desks may have a cell in common.
    pub(crate) fn overlap(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Keeps other desks from the same cells. In order, so that no two wait for each other.
    pub(crate) async fn hold(&self, names: &[Name]) -> Vec<Held<'_, ()>> {
        if !self.overlap() {
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
