//! A minimal runtime for a store that has none: one thread that wakes sleeping futures and runs
//! tasks to their end.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tollgate::keyed::lock;
use tollgate::shared::Runtime;
use tollgate::{Clock, SystemClock, Timestamp};

/// A handle of the thread, which ends when it is stopped.
#[derive(Clone)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
}

struct Shared {
    clock: SystemClock,
    todo: Mutex<Todo>,
    changed: Condvar,
}

#[derive(Default)]
struct Todo {
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    /// Distinguishes sleepers with the same time.
    next: u64,
    ready: VecDeque<Arc<Task>>,
    stop: bool,
}

struct Task {
    future: Mutex<Option<tollgate::shared::Task>>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Timer")
    }
}

impl Timer {
    pub(crate) fn start() -> std::io::Result<Timer> {
        let shared = Arc::new(Shared {
            clock: SystemClock::new(),
            todo: Mutex::default(),
            changed: Condvar::new(),
        });
        let timer = Timer { shared: Arc::clone(&shared) };
        thread::Builder::new().name("tollgate timer".into()).spawn(move || shared.run())?;
        Ok(timer)
    }

    /// Ends the thread. Unfinished tasks are dropped.
    pub(crate) fn stop(&self) {
        lock(&self.shared.todo).stop = true;
        self.shared.changed.notify_one();
    }
}

impl Runtime for Timer {
    fn sleep(&self, span: Duration) -> tollgate::shared::Task {
        let until = self.shared.clock.now() + span;
        Box::pin(Sleep { shared: Arc::clone(&self.shared), until, registered: None })
    }

    fn spawn(&self, task: tollgate::shared::Task) {
        let task = Task { future: Mutex::new(Some(task)), shared: Arc::clone(&self.shared) };
        Arc::new(task).wake();
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut todo = lock(&self.todo);
            if todo.stop {
                let rest = std::mem::take(&mut *todo);
                todo.stop = true;
                drop(todo);
                rest.sleepers.into_values().for_each(Waker::wake);
                return;
            }
            if let Some(task) = todo.ready.pop_front() {
                drop(todo);
                // A task that panics ends. The timers of other callers continue.
                if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
                    tracing::warn!("a task panicked");
                }
                continue;
            }
            let now = self.clock.now();
            match todo.sleepers.first_key_value() {
                Some((&key, _)) if key.0 <= now => {
                    let waker = todo.sleepers.remove(&key);
                    drop(todo);
                    waker.into_iter().for_each(Waker::wake);
                }
                Some((&(until, _), _)) => {
                    drop(self.changed.wait_timeout(todo, until.since(now)));
                }
                None => drop(self.changed.wait(todo).unwrap_or_else(PoisonError::into_inner)),
            }
        }
    }
}

impl Task {
    fn run(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut future = lock(&self.future);
        let Some(task) = future.as_mut() else { return };
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            *future = None;
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let shared = Arc::clone(&self.shared);
        let mut todo = lock(&shared.todo);
        if !todo.stop {
            todo.ready.push_back(self);
            shared.changed.notify_one();
        }
    }
}

/// Ends at its time. It costs nothing until it is polled.
struct Sleep {
    shared: Arc<Shared>,
    until: Timestamp,
    registered: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        if shared.clock.now() >= self.until {
            return Poll::Ready(());
        }
        let mut todo = lock(&shared.todo);
        if todo.stop {
            return Poll::Ready(());
        }
        let id = *self.registered.get_or_insert_with(|| {
            todo.next += 1;
            todo.next
        });
        let key = (self.until, id);
        let is_first = todo.sleepers.first_key_value().is_none_or(|(first, _)| key < *first);
        todo.sleepers.insert(key, cx.waker().clone());
        if is_first {
            shared.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.registered {
            let waker = lock(&self.shared.todo).sleepers.remove(&(self.until, id));
            drop(waker);
        }
    }
}
