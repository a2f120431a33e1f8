//! Who works at a desk: the caller who opened it, as long as nobody else waits there; else a task.
//!
//! A task of its own costs as much as all the rest of a hit, and most hits are alone with their
//! key. But a caller may walk away, or not be polled for long. So whoever comes second makes a task
//! of the work, and so does a caller who goes before it is done.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

/// Work that can go on elsewhere.
pub(crate) struct Lead {
    /// Gone when it is done, or when a task has it. Locked while it is polled.
    work: Mutex<Option<Work>>,
    /// That a task shall have it.
    moves: AtomicBool,
    runtime: Handle,
}

struct Work {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Of the caller who polled it last, who waits for nothing else meanwhile.
    caller: Option<Waker>,
}

impl std::fmt::Debug for Lead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lead")
    }
}

impl Lead {
    pub(crate) fn new(runtime: &Handle) -> Arc<Lead> {
        let (work, moves) = (Mutex::new(None), AtomicBool::new(false));
        Arc::new(Lead { work, moves, runtime: runtime.clone() })
    }

    /// Begins with it, unless somebody has come already.
    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let work = Work { future: Box::pin(work), caller: None };
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
        self.move_if_told();
    }

    /// Makes a task of it, now or as soon as it is not being polled.
    pub(crate) fn make_task(&self) {
        self.moves.store(true, Ordering::SeqCst);
        self.move_if_told();
    }

    /// Goes on with it, until it is done or a task has it.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        {
            // Only its caller polls it: who else has the lock makes a task of it.
            let Some(mut work) = self.free() else { return Poll::Ready(()) };
            let Some(running) = work.as_mut() else { return Poll::Ready(()) };
            if running.future.as_mut().poll(cx).is_ready() {
                *work = None;
                return Poll::Ready(());
            }
            if !running.caller.as_ref().is_some_and(|caller| caller.will_wake(cx.waker())) {
                running.caller = Some(cx.waker().clone());
            }
        }
        if self.move_if_told() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whoever had it locked looks here afterwards, so that it is not left lying.
    fn move_if_told(&self) -> bool {
        if !self.moves.load(Ordering::SeqCst) {
            return false;
        }
        if let Some(Work { future, caller }) = self.free().and_then(|mut work| work.take()) {
            self.runtime.spawn(future);
            if let Some(caller) = caller {
                caller.wake();
            }
        }
        true
    }

    fn free(&self) -> Option<MutexGuard<'_, Option<Work>>> {
        match self.work.try_lock() {
            Ok(work) => Some(work),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Held by the caller. When it goes before the work is done, that goes on in a task.
#[derive(Debug)]
pub(crate) struct Leading(pub(crate) Arc<Lead>);

impl Leading {
    /// Until there is nothing more to do here.
    pub(crate) async fn lead(&self) {
        std::future::poll_fn(|cx| self.0.poll(cx)).await;
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.make_task();
    }
}
