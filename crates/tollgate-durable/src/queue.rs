//! The queue of the writer: keys for which calls wait, keys that can wait, and places to clear.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::key::Form;
use tollgate::keyed::lock;
use tollgate::{Clock, Error, KeyRef, SystemClock, Timestamp};

use crate::limits::Known;
use crate::mark::Queued;
use crate::table::{Entry, Lookup};

/// The most keys without waiting calls in a batch with waiting calls. So few that no call waits
/// long.
const SOON_IN_BATCH: usize = 10_000;

/// The keys of one transaction. A call that waits for a key waits for its batch.
#[derive(Debug)]
pub(crate) struct Batch {
    number: u64,
    outcome: Mutex<CommitResult>,
}

#[derive(Debug, Default)]
struct CommitResult {
    result: Option<BatchResult>,
    wakers: Vec<Waker>,
}

/// The result of a batch: everything is on disk, or everything except new keys for which there is
/// no room.
pub(crate) type BatchResult = Result<Option<Error>, Error>;

impl Batch {
    fn new(number: u64) -> Arc<Batch> {
        Arc::new(Batch { number, outcome: Mutex::default() })
    }

    pub(crate) fn finish(&self, result: BatchResult) {
        let mut outcome = lock(&self.outcome);
        outcome.result = Some(result);
        let wakers = std::mem::take(&mut outcome.wakers);
        drop(outcome);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A future that ends when a batch is on disk, or cannot be written.
#[derive(Debug)]
pub(crate) struct Written(pub(crate) Arc<Batch>);

impl Future for Written {
    type Output = BatchResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = lock(&self.0.outcome);
        if let Some(result) = &outcome.result {
            return Poll::Ready(result.clone());
        }
        if !outcome.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            outcome.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// A key, owned.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) known: Arc<Known>,
    form: Form,
    key: Box<[u8]>,
    hash: u64,
}

impl Name {
    fn of(lookup: &Lookup<'_>) -> Name {
        let Lookup { known, key, hash } = *lookup;
        Name { known: Arc::clone(known), form: key.form(), key: key.bytes().into(), hash }
    }

    pub(crate) fn lookup(&self) -> Lookup<'_> {
        let key = KeyRef::from_parts(self.form, &self.key);
        Lookup { known: &self.known, key, hash: self.hash }
    }
}

/// A scan over the records in slices, to delete some.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) goal: Goal,
    /// The last name that was visited.
    pub(crate) cursor: Vec<u8>,
    pub(crate) batch: Arc<Batch>,
}

/// The records to delete.
#[derive(Debug)]
pub(crate) enum Goal {
    /// Expired records whose keys are not in memory.
    Expired,
    /// Records of the places with this prefix whose keys are not in memory.
    Cleared(Box<[u8]>),
}

/// The next task of the writer.
#[derive(Debug)]
pub(crate) enum Work {
    /// `anyway`: commit even without changes.
    Write {
        batch: Arc<Batch>,
        names: Vec<Name>,
        anyway: bool,
    },
    Walk(Walk),
    /// There is nothing to do now.
    Rest,
    Stop,
}

#[derive(Debug)]
pub(crate) struct Queue {
    clock: SystemClock,
    todo: Mutex<Todo>,
    changed: Condvar,
}

#[derive(Debug)]
struct Todo {
    gathering: Arc<Batch>,
    taken: Arc<Batch>,
    now: Vec<Name>,
    soon: VecDeque<Name>,
    soon_due: Option<Timestamp>,
    /// Whether a call waits for the batch that is being collected.
    wanted: bool,
    /// Whether to commit it even without changes.
    anyway: bool,
    /// Whether the commit includes all keys that can wait.
    all: bool,
    walks: VecDeque<Walk>,
    stop: bool,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        let todo = Todo {
            gathering: Batch::new(1),
            taken: Batch::new(0),
            now: Vec::new(),
            soon: VecDeque::new(),
            soon_due: None,
            wanted: false,
            anyway: false,
            all: false,
            walks: VecDeque::new(),
            stop: false,
        };
        Queue { clock: SystemClock::new(), todo: Mutex::new(todo), changed: Condvar::new() }
    }

    /// Queues the key to be written within that time; `None` when the store is closed.
    pub(crate) fn soon(&self, lookup: &Lookup<'_>, entry: &mut Entry, within: Option<Duration>) {
        if entry.mark.queued != Queued::No {
            return;
        }
        entry.mark.queued = Queued::Soon;
        let mut todo = lock(&self.todo);
        todo.soon.push_back(Name::of(lookup));
        self.hurry(&mut todo, within);
    }

    /// Queues all keys that can wait, within that time.
    pub(crate) fn again_within(&self, within: Duration) {
        self.hurry(&mut lock(&self.todo), Some(within));
    }

    /// Delays the keys that can wait until that time.
    pub(crate) fn put_off(&self, time: Duration) {
        lock(&self.todo).soon_due = Some(self.clock.now() + time);
    }

    fn hurry(&self, todo: &mut Todo, within: Option<Duration>) {
        let due = within.map(|within| self.clock.now() + within);
        if due.is_some_and(|due| todo.soon_due.is_none_or(|before| due < before)) {
            todo.soon_due = due;
            self.changed.notify_one();
        }
    }

    /// Adds the key to the next batch, which is returned.
    pub(crate) fn now(&self, lookup: &Lookup<'_>, entry: &mut Entry) -> Arc<Batch> {
        let mut todo = lock(&self.todo);
        if let Queued::Now(number) = entry.mark.queued {
            // The record is not made yet, so it will have the present state.
            let batch = if number == todo.gathering.number { &todo.gathering } else { &todo.taken };
            return Arc::clone(batch);
        }
        entry.mark.queued = Queued::Now(todo.gathering.number);
        todo.now.push(Name::of(lookup));
        todo.wanted = true;
        self.changed.notify_one();
        Arc::clone(&todo.gathering)
    }

    /// Requests a batch even without changes.
    pub(crate) fn anything(&self) -> Arc<Batch> {
        let mut todo = lock(&self.todo);
        todo.wanted = true;
        todo.anyway = true;
        self.changed.notify_one();
        Arc::clone(&todo.gathering)
    }

    /// Requests a batch with all keys that can wait.
    pub(crate) fn everything(&self) -> Arc<Batch> {
        let mut todo = lock(&self.todo);
        todo.wanted = true;
        todo.all = true;
        self.changed.notify_one();
        Arc::clone(&todo.gathering)
    }

    /// Starts a scan of all records.
    pub(crate) fn walk(&self, goal: Goal) -> Arc<Batch> {
        let batch = Batch::new(0);
        self.walk_on(Walk { goal, cursor: Vec::new(), batch: Arc::clone(&batch) });
        batch
    }

    pub(crate) fn walk_on(&self, walk: Walk) {
        lock(&self.todo).walks.push_back(walk);
        self.changed.notify_one();
    }

    pub(crate) fn stop(&self) {
        lock(&self.todo).stop = true;
        self.changed.notify_one();
    }

    /// The next task. Waits for it until `rest` at the latest.
    pub(crate) fn next(&self, rest: Timestamp) -> Work {
        let mut todo = lock(&self.todo);
        loop {
            let now = self.clock.now();
            if todo.wanted || todo.soon_due.is_some_and(|due| due <= now) {
                return todo.take();
            }
            if todo.stop {
                return Work::Stop;
            }
            if let Some(walk) = todo.walks.pop_front() {
                return Work::Walk(walk);
            }
            if rest <= now {
                return Work::Rest;
            }
            let until = todo.soon_due.map_or(rest, |due| due.min(rest));
            let waited = self.changed.wait_timeout(todo, until.since(now));
            todo = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The remaining work when the store is closed.
    pub(crate) fn last(&self) -> (Vec<Name>, Vec<Walk>) {
        let mut todo = lock(&self.todo);
        todo.all = true;
        let walks = std::mem::take(&mut todo.walks).into();
        match todo.take() {
            Work::Write { names, .. } => (names, walks),
            _ => (Vec::new(), walks),
        }
    }

    pub(crate) fn now_by_the_clock(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Todo {
    fn take(&mut self) -> Work {
        let next = Batch::new(self.gathering.number + 1);
        let batch = std::mem::replace(&mut self.gathering, next);
        self.taken = Arc::clone(&batch);
        let mut names = std::mem::take(&mut self.now);
        let most = if self.all { usize::MAX } else { SOON_IN_BATCH };
        names.extend(self.soon.drain(..self.soon.len().min(most)));
        if self.soon.is_empty() {
            self.soon_due = None;
        }
        self.wanted = false;
        self.all = false;
        Work::Write { batch, names, anyway: std::mem::take(&mut self.anyway) }
    }
}
