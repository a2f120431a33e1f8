//! A timer and a spawner without a runtime: a thread for each.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tollgate::shared::{Runtime, Task};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer;

impl Runtime for Timer {
    fn sleep(&self, span: Duration) -> Task {
        Box::pin(sleep(span))
    }

    fn spawn(&self, task: Task) {
        thread::spawn(|| tollgate_testkit::block_on(task));
    }
}

/// Ready after that time. The thread starts when the future is first polled.
fn sleep(span: Duration) -> impl Future<Output = ()> + Send {
    let over = Arc::new(AtomicBool::new(false));
    let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
    let mut started = false;
    poll_fn(move |context| {
        if over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        *waker.lock().expect("nobody panics with it") = Some(context.waker().clone());
        if !started {
            started = true;
            let (over, waker) = (Arc::clone(&over), Arc::clone(&waker));
            thread::spawn(move || {
                pause(span);
                over.store(true, Ordering::Release);
                if let Some(waker) = waker.lock().expect("nobody panics with it").take() {
                    waker.wake();
                }
            });
        }
        // It may have ended between the two checks.
        if over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    })
}

/// No thread unparks the threads of this file, but they may wake up spuriously.
pub(crate) fn pause(span: Duration) {
    use tollgate::Clock;
    let clock = tollgate::SystemClock::new();
    let until = clock.now() + span;
    while clock.now() < until {
        thread::park_timeout(until.since(clock.now()));
    }
}
