//! A store that fails when a test tells it to.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::shared::{
    Ask, Guard, GuardBuilder, HitItem, InProcess, Runtime, SharedLimiter, SharedStore, Task,
};
use tollgate::{Clock, Error, Limit, ManualClock, Memory, Outcome, Timestamp};

/// The way in which the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Answers,
    /// The store cannot be reached and executes no call.
    Unreachable,
    /// The store executes calls, but sends their answers only when its behaviour changes.
    Silent,
    /// The store answers each call with an error about the key, and does not execute it.
    AnswersWithErrors,
    /// The store is overloaded and executes no call.
    Overloaded,
}

#[derive(Clone, Debug)]
pub(crate) struct Failing {
    store: InProcess<Memory<ManualClock>>,
    pub(crate) clock: ManualClock,
    shared: Arc<Shared>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    calls: AtomicU64,
    guard: Guard,
    tasks: Arc<Tasks>,
}

/// The spawned tasks of the store, and its timers, which read a manual clock.
struct Tasks {
    clock: ManualClock,
    tasks: Mutex<Vec<Task>>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tasks")
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.tasks.lock().expect("no test panics while it holds the lock")
    }
}

#[derive(Debug)]
struct Manual(Arc<Tasks>);

impl Runtime for Manual {
    fn sleep(&self, span: Duration) -> Task {
        let clock = self.0.clock.clone();
        let until = clock.now() + span;
        let poll = move || if clock.now() >= until { Poll::Ready(()) } else { Poll::Pending };
        Box::pin(poll_fn(move |_| poll()))
    }

    fn spawn(&self, task: Task) {
        self.0.lock().push(task);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.guard.fmt(f)
    }
}

pub(crate) const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

/// The deadline of calls. The constants below are the pause of a breaker and the number of failures
/// that open it.
pub(crate) const DEADLINE: Duration = Duration::from_millis(5);
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
pub(crate) const FAILURES: u32 = 3;

impl Failing {
    pub(crate) fn new() -> Failing {
        Failing::with(|guard| guard)
    }

    pub(crate) fn with(change: impl FnOnce(GuardBuilder) -> GuardBuilder) -> Failing {
        let clock = ManualClock::new(START);
        let guard = Guard::builder()
            .deadline(DEADLINE)
            .open_after(FAILURES)
            .pause(PAUSE, 10 * PAUSE)
            .clock(clock.clone());
        let tasks = Arc::new(Tasks { clock: clock.clone(), tasks: Mutex::default() });
        let shared = Shared {
            behaviour: Mutex::new(Behaviour::Answers),
            calls: AtomicU64::new(0),
            guard: change(guard).build_on(Manual(Arc::clone(&tasks))),
            tasks,
        };
        let store = InProcess::new(Memory::builder().clock(clock.clone()).build());
        Failing { store, clock, shared: Arc::new(shared) }
    }

    pub(crate) fn limiter(&self, limit: &str) -> SharedLimiter<Failing> {
        SharedLimiter::new(self, "", limit).unwrap_or_else(|error| panic!("{limit}: {error}"))
    }

    /// Returns a handle to the same counters that remembers no denials and never fails. It acts as
    /// another process, or shows the store's own answer.
    pub(crate) fn directly(&self) -> &InProcess<Memory<ManualClock>> {
        &self.store
    }

    pub(crate) fn behaves_as(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().expect("no test panics while it holds the lock") = behaviour;
    }

    fn behaviour(&self) -> Behaviour {
        *self.shared.behaviour.lock().expect("no test panics while it holds the lock")
    }

    /// Returns the number of calls that reached the store.
    pub(crate) fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Runs spawned tasks as far as possible.
    pub(crate) fn run_tasks(&self) {
        let mut tasks = std::mem::take(&mut *self.shared.tasks.lock());
        let mut cx = Context::from_waker(Waker::noop());
        tasks.retain_mut(|task| task.as_mut().poll(&mut cx).is_pending());
        self.shared.tasks.lock().extend(tasks);
    }

    /// Runs a call to its end, and moves the clock forward whenever the call is pending.
    pub(crate) fn run<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = call.as_mut().poll(&mut cx) {
                return output;
            }
            self.clock.advance(Duration::from_micros(500));
        }
    }

    /// Returns whether the store executes calls in its current behaviour.
    fn executes(&self) -> bool {
        matches!(self.behaviour(), Behaviour::Answers | Behaviour::Silent)
    }

    /// Returns the answer that the caller gets from the store in its current behaviour.
    fn answer<T: Send + 'static>(
        &self,
        executed: Option<Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<T> {
        let behaviour = self.behaviour();
        if behaviour != Behaviour::Unreachable {
            self.shared.calls.fetch_add(1, Ordering::Relaxed);
        }
        let mut answer = Some(match (behaviour, executed) {
            (_, Some(result)) => result,
            (Behaviour::AnswersWithErrors, None) => {
                Err(Error::store("an error about the key", false))
            }
            (Behaviour::Overloaded, None) => Err(Error::overloaded("too many calls")),
            (_, None) => Err(Error::unavailable("the store cannot be reached")),
        });
        let shared = Arc::clone(&self.shared);
        poll_fn(move |_| {
            if behaviour == Behaviour::Silent
                && *shared.behaviour.lock().expect("no test panics while it holds the lock")
                    == Behaviour::Silent
            {
                return Poll::Pending;
            }
            answer.take().map_or(Poll::Pending, Poll::Ready)
        })
    }
}

fn now<T>(ready: impl Future<Output = T>) -> T {
    match pin!(ready).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an in-process store never waits"),
    }
}

impl SharedStore for Failing {
    type Prepared = <InProcess<Memory<ManualClock>> as SharedStore>::Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Self::Prepared, Error> {
        self.store.prepare(namespace, limit)
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.answer(self.executes().then(|| now(self.store.ask_each(asks, at, deadline))))
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Self::Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        self.answer(self.executes().then(|| now(self.store.ask_together(hits, at, deadline))))
    }

    fn clear(
        &self,
        prepared: &Self::Prepared,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.answer(self.executes().then(|| now(self.store.clear(prepared))))
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.answer(self.executes().then_some(Ok(())))
    }

    fn guard(&self) -> &Guard {
        &self.shared.guard
    }
}
