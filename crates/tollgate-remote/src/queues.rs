//! Queues of the jobs that callers in this process wait for, so that jobs which wait at the same
//! time are done together.
//!
//! A queue exists only while a worker serves it. The caller whose job finds no queue creates one
//! and starts the worker, which takes the waiting jobs, again and again, until none is left. So the
//! first job is done immediately, and those that arrive meanwhile are done together. At first the
//! caller polls the worker itself. As soon as a second caller joins, the worker becomes a spawned
//! task (`worker.rs`), so that a caller that is dropped delays nobody.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::runtime::Handle;

pub use crate::worker::InlineWorker;
use crate::worker::Worker;

const SHARDS: usize = 64;

/// Queues of jobs by name.
///
/// ```
/// use tokio::sync::oneshot;
/// use tollgate_remote::Queues;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queues = Queues::new(tokio::runtime::Handle::current());
/// let (reply, replied) = oneshot::channel();
/// let worker = queues.push("counter", (20, reply), true, |mut queue| async move {
///     while let Some(jobs) = queue.take(100) {
///         for (number, reply) in jobs {
///             let _ = reply.send(number + 1);
///         }
///     }
/// });
/// if let Some(worker) = worker {
///     worker.run().await;
/// }
/// assert_eq!(replied.await, Ok(21));
/// # }
/// ```
pub struct Queues<N, J> {
    shared: Arc<Shared<N, J>>,
    runtime: Handle,
}

struct Shared<N, J> {
    shards: Box<[Mutex<Shard<N, J>>]>,
    hasher: RandomState,
}

type Shard<N, J> = HashMap<N, Waiting<J>, RandomState>;

struct Waiting<J> {
    jobs: VecDeque<J>,
    /// The worker, while the first caller still polls it. `None` once it is a task.
    inline_worker: Option<Arc<Worker>>,
}

impl<N, J> Debug for Queues<N, J> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

impl<N: Clone + Eq + Hash, J> Queues<N, J> {
    /// Workers run on this runtime.
    ///
    /// See the example of [`Queues`].
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Queues { shared: Arc::new(Shared { shards, hasher: RandomState::default() }), runtime }
    }

    /// Appends a job to the queue of that name. `serve` is called only if the job creates the
    /// queue, and makes the worker. `inline`: the caller awaits the reply of this job and nothing
    /// else, so it may poll the worker itself, which is returned then.
    ///
    /// See the example of [`Queues`].
    pub fn push<F>(
        &self,
        name: N,
        job: J,
        inline: bool,
        serve: impl FnOnce(Queue<N, J>) -> F,
    ) -> Option<InlineWorker>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut shard = self.shared.shard(&name);
        if let Some(waiting) = shard.get_mut(&name) {
            waiting.jobs.push_back(job);
            let inline_worker = waiting.inline_worker.take();
            drop(shard);
            if let Some(worker) = inline_worker {
                worker.move_to_task();
            }
            return None;
        }
        let inline_worker = inline.then(|| Worker::new(&self.runtime));
        let waiting = Waiting { jobs: VecDeque::from([job]), inline_worker: inline_worker.clone() };
        shard.insert(name.clone(), waiting);
        drop(shard);
        let served = serve(Queue { shared: Arc::clone(&self.shared), name, removed: false });
        let Some(worker) = inline_worker else {
            self.runtime.spawn(served);
            return None;
        };
        worker.start(served);
        Some(InlineWorker(worker))
    }
}

impl<N: Eq + Hash, J> Shared<N, J> {
    fn shard(&self, name: &N) -> MutexGuard<'_, Shard<N, J>> {
        let index = self.hasher.hash_one(name) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue, as its worker has it. The worker ends when [`take`](Queue::take) returns `None`.
pub struct Queue<N: Eq + Hash, J> {
    shared: Arc<Shared<N, J>>,
    name: N,
    removed: bool,
}

impl<N: Eq + Hash, J> Debug for Queue<N, J> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl<N: Eq + Hash, J> Queue<N, J> {
    /// Takes the jobs that have waited longest, at most `most`. Removes the queue if there are
    /// none: from then on a queue of the same name belongs to another worker.
    ///
    /// See the example of [`Queues`].
    pub fn take(&mut self, most: usize) -> Option<Vec<J>> {
        let mut shard = self.shared.shard(&self.name);
        match shard.get_mut(&self.name).filter(|_| !self.removed) {
            Some(Waiting { jobs, .. }) if !jobs.is_empty() => {
                Some(jobs.drain(..most.min(jobs.len())).collect())
            }
            Some(_) => {
                shard.remove(&self.name);
                self.removed = true;
                None
            }
            None => None,
        }
    }
}

impl<N: Eq + Hash, J> Drop for Queue<N, J> {
    /// If the runtime drops the worker before its end, the waiting jobs are dropped too, so that
    /// their callers notice.
    fn drop(&mut self) {
        if !self.removed {
            let removed = self.shared.shard(&self.name).remove(&self.name);
            drop(removed);
        }
    }
}
