//! The future that serves one queue. The caller who created the queue polls it; it becomes a
//! spawned task when a second caller joins or the first caller is dropped.
//!
//! Spawning a task costs as much as all the rest of a hit, and most hits are alone with their key.
//! So the first caller does the work itself. But that caller may be dropped, or not be polled for a
//! long time, and must not delay the others.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

/// A future that its first caller polls until it is moved to a task.
pub(crate) struct Worker {
    /// `None` before it starts, when it is done, and when it is a task. Locked while it is polled.
    running: Mutex<Option<Running>>,
    /// Set when it should become a task.
    move_requested: AtomicBool,
    runtime: Handle,
}

struct Running {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Waker of the caller that polled it last. That caller waits for nothing else, so it must be
    /// woken when the future becomes a task.
    caller: Option<Waker>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Worker")
    }
}

impl Worker {
    pub(crate) fn new(runtime: &Handle) -> Arc<Worker> {
        let (running, move_requested) = (Mutex::new(None), AtomicBool::new(false));
        Arc::new(Worker { running, move_requested, runtime: runtime.clone() })
    }

    /// Sets the future. Spawns it if a second caller has joined already.
    pub(crate) fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        let running = Running { future: Box::pin(future), caller: None };
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        self.spawn_if_requested();
    }

    /// Spawns the future, now or as soon as the current poll returns.
    pub(crate) fn move_to_task(&self) {
        self.move_requested.store(true, Ordering::SeqCst);
        self.spawn_if_requested();
    }

    /// Ready when the future is done or has become a task.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        {
            // Only its caller polls it. If the lock is taken, another thread is spawning it.
            let Some(mut running) = self.try_lock() else { return Poll::Ready(()) };
            let Some(work) = running.as_mut() else { return Poll::Ready(()) };
            if work.future.as_mut().poll(cx).is_ready() {
                *running = None;
                return Poll::Ready(());
            }
            if !work.caller.as_ref().is_some_and(|caller| caller.will_wake(cx.waker())) {
                work.caller = Some(cx.waker().clone());
            }
        }
        if self.spawn_if_requested() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Called after every release of the lock, so that a request made while it was held is not
    /// missed. Returns whether a move was requested.
    fn spawn_if_requested(&self) -> bool {
        if !self.move_requested.load(Ordering::SeqCst) {
            return false;
        }
        if let Some(Running { future, caller }) =
            self.try_lock().and_then(|mut running| running.take())
        {
            self.runtime.spawn(future);
            if let Some(caller) = caller {
                caller.wake();
            }
        }
        true
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Running>>> {
        match self.running.try_lock() {
            Ok(running) => Some(running),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Held by the caller that polls the worker of its queue. When it is dropped, the worker becomes a
/// task.
///
/// See the example of [`Queues`](crate::Queues).
#[derive(Debug)]
pub struct InlineWorker(pub(crate) Arc<Worker>);

impl InlineWorker {
    /// Polls the worker until it is done or has become a task.
    ///
    /// See the example of [`Queues`](crate::Queues).
    pub async fn run(&self) {
        std::future::poll_fn(|cx| self.0.poll(cx)).await;
    }
}

impl Drop for InlineWorker {
    fn drop(&mut self) {
        self.0.move_to_task();
    }
}
