//! Calls with which tests disturb a shared store and check its answers, on tokio.

mod announcements;
mod distance;
mod line;
mod overload;
mod rules;
mod skew;

pub use announcements::{
    eventually_admits, exhausted, forgets_all_after, forgets_what_another_gives_back, hears,
    still_denied,
};
pub use distance::Distance;
pub use line::Line;
pub use overload::{Overload, measure_overload, overload};
pub use rules::Rules;
pub use skew::{Ahead, clocks_apart};

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::shared::{Guard, GuardBuilder, SharedLimiter, SharedStore, Stats};
use tollgate::{Clock as _, Decision, Error, ErrorKind, Source, SystemClock};

use crate::PATIENCE;

/// The deadline of calls that must be answered: long enough for a slow machine.
pub const LONG: Duration = Duration::from_secs(10);

/// The deadline of calls that will not be answered.
pub const SHORT: Duration = Duration::from_millis(100);

/// A tokio runtime with all drivers.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn runtime() -> Runtime {
    Runtime::new().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a test on a runtime of its own.
///
/// # Panics
/// When the test hangs.
pub fn run(test: impl Future<Output = ()>) {
    runtime().block_on(async {
        let longest = 4 * PATIENCE;
        let ended = tokio::time::timeout(longest, test).await;
        assert!(ended.is_ok(), "not at its end after {longest:?}");
    });
}

/// For a store that must answer. Remembers denials to their end, however slow the machine is.
#[must_use]
pub fn patient_guard() -> GuardBuilder {
    Guard::builder().deadline(LONG).denials_for(Duration::MAX)
}

/// For a store that may not answer: a short deadline, and a breaker that opens and probes often.
#[must_use]
pub fn hasty_guard() -> GuardBuilder {
    let pause = (Duration::from_millis(20), Duration::from_millis(200));
    Guard::builder().deadline(SHORT).open_after(3).pause(pause.0, pause.1)
}

/// A limiter on a store.
///
/// # Panics
/// When the text is not a limit, or the store refuses it.
pub fn limiter<S: SharedStore>(store: &S, limit: &str) -> SharedLimiter<S> {
    SharedLimiter::new(store, "", limit).unwrap_or_else(|error| panic!("{limit}: {error}"))
}

/// Waits for a call that must end, whatever its answer. Waits far beyond any deadline in use,
/// because the machine may be busy.
///
/// # Panics
/// When the call does not end.
pub async fn in_time<T>(call: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(LONG, call).await;
    ended.unwrap_or_else(|_| panic!("a call hangs past its deadline"))
}

/// Waits until the condition holds, as long as a slow machine may need.
///
/// # Panics
/// When it does not hold after [`PATIENCE`].
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let clock = SystemClock::new();
    let begin = clock.now();
    while !holds().await {
        assert!(clock.now().since(begin) < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the store answers for a key: it is connected and its breaker is closed. Charges
/// nothing.
///
/// # Panics
/// When it does not answer after [`PATIENCE`].
pub async fn answers<S: SharedStore>(limiter: &SharedLimiter<S>, key: &str) {
    eventually("the store answers", || async {
        in_time(limiter.peek(key)).await.is_ok_and(|peek| peek.source() == Source::Store)
    })
    .await;
}

/// Sends hits that the store must decide, and returns how many were allowed.
///
/// # Panics
/// When the store does not decide one.
pub async fn admitted<S: SharedStore>(limiter: &SharedLimiter<S>, key: &str, tries: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..tries {
        let hit = limiter.within(LONG).hit(key).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(hit.source(), Source::Store | Source::DenialCache), "{:?}", hit.source());
        admitted += u64::from(hit.allowed());
    }
    admitted
}

/// Counters of how calls were answered.
pub fn stats<S: SharedStore>(store: &S) -> Stats {
    store.guard().stats()
}

/// Checks that a call failed because of the store, not because of a mistake of the caller.
///
/// # Panics
/// When the call succeeded, or failed because of the caller.
pub fn fails_by_the_store(result: Result<Decision, Error>) -> Error {
    let Err(error) = result else { panic!("decided by a store that cannot: {result:?}") };
    let kinds = [ErrorKind::Unavailable, ErrorKind::Lost, ErrorKind::Store];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    error
}
