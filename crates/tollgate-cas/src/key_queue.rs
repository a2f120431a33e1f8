//! One queue per cell or group of cells: the jobs of all callers of this process that wait for the
//! same cells, so that they are decided in order and written in one swap.
//!
//! A queue exists only while a worker serves it. The caller whose job finds no queue creates one
//! and starts the worker, which takes all waiting jobs, again and again, until none is left. At
//! first the caller polls the worker itself. As soon as a second caller joins, the worker becomes a
//! spawned task (`worker.rs`), so that a caller that is dropped delays nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::MutexGuard as AsyncMutexGuard;

use crate::cells::Name;
use crate::job::Job;
use crate::worker::Worker;

const SHARDS: usize = 64;

/// Number of cell locks. Two cells may share one; then their queues wait for each other needlessly,
/// which is rare.
const LOCKS: usize = 1024;

type Shard = HashMap<Arc<[Name]>, KeyQueue, RandomState>;

#[derive(Debug)]
struct KeyQueue {
    waiting: Vec<Job>,
    /// The worker, while the first caller still polls it. `None` once it is a task.
    inline_worker: Option<Arc<Worker>>,
}

pub(crate) enum Enqueued {
    /// The job created the queue: the caller must start its worker.
    First(Option<Arc<Worker>>),
    /// A worker already serves the queue.
    Joined,
}

#[derive(Debug)]
pub(crate) struct KeyQueues {
    shards: Box<[Mutex<Shard>]>,
    /// One lock per cell (by hash), for queues that have a cell in common. Empty if none can.
    locks: Box<[tokio::sync::Mutex<()>]>,
}

impl KeyQueues {
    /// `overlap`: whether two queues may have a cell in common.
    pub(crate) fn new(overlap: bool) -> KeyQueues {
        KeyQueues {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            locks: (0..if overlap { LOCKS } else { 0 }).map(|_| Default::default()).collect(),
        }
    }

    fn shard(&self, names: &[Name]) -> MutexGuard<'_, Shard> {
        // A group of cells is in the shard of its first cell.
        let index = names.first().map_or(0, |name| name.shard(SHARDS));
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a job to the queue of these cells. `inline_worker` is called only if the job creates
    /// the queue.
    pub(crate) fn push(
        &self,
        names: &Arc<[Name]>,
        job: Job,
        inline_worker: impl FnOnce() -> Option<Arc<Worker>>,
    ) -> Enqueued {
        let mut shard = self.shard(names);
        let Some(queue) = shard.get_mut(names) else {
            let inline_worker = inline_worker();
            let queue = KeyQueue { waiting: vec![job], inline_worker: inline_worker.clone() };
            shard.insert(Arc::clone(names), queue);
            return Enqueued::First(inline_worker);
        };
        queue.waiting.push(job);
        let inline_worker = queue.inline_worker.take();
        drop(shard);
        if let Some(worker) = inline_worker {
            worker.move_to_task();
        }
        Enqueued::Joined
    }

    /// Takes all waiting jobs. Removes the queue if there are none.
    pub(crate) fn take(&self, names: &[Name]) -> Vec<Job> {
        let mut shard = self.shard(names);
        let queue = shard.get_mut(names);
        let waiting = queue.map(|queue| std::mem::take(&mut queue.waiting)).unwrap_or_default();
        if waiting.is_empty() {
            shard.remove(names);
        }
        waiting
    }

    /// Removes the queue with all waiting jobs. Their callers get the error that the runtime has
    /// ended.
    pub(crate) fn remove(&self, names: &[Name]) {
        let queue = self.shard(names).remove(names);
        drop(queue);
    }

    /// Whether two queues may have a cell in common.
    pub(crate) fn overlap(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Locks these cells against other queues. Always in the same order, so that no two queues
    /// deadlock.
    pub(crate) async fn lock(&self, names: &[Name]) -> Vec<AsyncMutexGuard<'_, ()>> {
        if !self.overlap() {
            return Vec::new();
        }
        let lock_index = |name: &Name| name.shard(self.locks.len());
        let mut indexes: Vec<usize> = names.iter().map(lock_index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let mut locked = Vec::with_capacity(indexes.len());
        for index in indexes {
            locked.push(self.locks[index].lock().await);
        }
        locked
    }
}
