//! The calls of a connection: started together, answered by one write.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

type BoxedCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Calls that were read and not started. A task for each would wake the connection for each
/// response, which would write it alone. Here the connection reads all that has arrived, then
/// starts all calls in its own task. Those that need not wait, as on a store in memory, are
/// answered by one write.
#[derive(Clone, Default)]
pub(super) struct CallExecutor(Arc<Mutex<Vec<BoxedCall>>>);

impl<F> hyper::rt::Executor<F> for CallExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(call));
    }
}

impl CallExecutor {
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
            if !self.start() {
                return Poll::Pending;
            }
        }
    }

    /// Starts all calls; false if there were none. A call that has to wait, for the store or for
    /// the rest of its message, becomes a task.
    fn start(&self) -> bool {
        let calls = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let any = !calls.is_empty();
        for mut call in calls {
            // The call is polled without a waker, because as a new task it is polled again before
            // it sleeps.
            if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(call);
            }
        }
        any
    }
}
