//! The calls of a connection: begun together, answered in one write.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Calls that were read and not begun. A task for each would wake the connection for each answer,
/// and that would write it alone; here the connection reads all that has arrived, all calls are
/// begun where they are, and those that need not wait, as with counts in memory, are answered by
/// the same write.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Call>>>);

impl<F> hyper::rt::Executor<F> for Calls
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(call));
    }
}

impl Calls {
    /// Drives the connection until it ends or has to wait.
    pub(super) fn poll<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if !self.begin() {
                return Poll::Pending;
            }
        }
    }

    /// Whether there were any. What has to wait, for the store or for the rest of its message, goes
    /// on as a task.
    fn begin(&self) -> bool {
        let calls = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let any = !calls.is_empty();
        for mut call in calls {
            // Nobody is woken by this look: a task looks again before it sleeps.
            if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(call);
            }
        }
        any
    }
}
