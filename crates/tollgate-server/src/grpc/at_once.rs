//! Calls that are answered at once need no task.

use std::future::Future;
use std::task::{Context, Waker};

/// Begins a call where it was read and makes it a task only if it has to wait: for the store, or for the rest of its message. An answer from memory
/// is ready before a task would have begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtOnce;

impl<F> hyper::rt::Executor<F> for AtOnce
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call = Box::pin(call);
        // Nobody is woken by this look: a task looks again before it sleeps.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(call);
        }
    }
}
