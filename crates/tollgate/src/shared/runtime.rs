//! The async runtime that a store uses. This crate itself does not depend on a runtime.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;

/// A future that a [`Runtime`] runs.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A timer, and a way to spawn tasks. The [`Guard`](super::Guard) of a store has a runtime. Users
/// of the store may poll its futures on any other runtime.
///
/// ```
/// use std::time::Duration;
/// use tollgate::shared::{Guard, Runtime, Task};
///
/// /// A runtime that logs what it runs.
/// #[derive(Debug)]
/// struct Logged<R>(R);
///
/// impl<R: Runtime> Runtime for Logged<R> {
///     fn sleep(&self, span: Duration) -> Task {
///         println!("a timer of {span:?}");
///         self.0.sleep(span)
///     }
///
///     fn spawn(&self, task: Task) {
///         println!("a task");
///         self.0.spawn(task);
///     }
/// }
///
/// let runtime = Guard::default().runtime().clone();
/// let guard = Guard::builder().build_on(Logged(runtime));
/// ```
pub trait Runtime: Debug + Send + Sync + 'static {
    /// Returns a future that ends after `span`.
    fn sleep(&self, span: Duration) -> Task;

    /// Spawns a task, which runs to its end.
    fn spawn(&self, task: Task);
}

impl Runtime for Arc<dyn Runtime> {
    fn sleep(&self, span: Duration) -> Task {
        (**self).sleep(span)
    }

    fn spawn(&self, task: Task) {
        (**self).spawn(task);
    }
}

/// The runtime of stores that never wait. Its timer reads a clock when it is polled, and a spawned
/// task is polled only once.
#[derive(Clone, Debug)]
pub(super) struct NoRuntime(pub(super) Arc<dyn Clock>);

impl Runtime for NoRuntime {
    fn sleep(&self, span: Duration) -> Task {
        let clock = Arc::clone(&self.0);
        let until = clock.now() + span;
        Box::pin(poll_fn(move |cx| {
            if clock.now() >= until {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn spawn(&self, mut task: Task) {
        let _ = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}
