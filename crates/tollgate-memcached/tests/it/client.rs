//! What tests do with a store.

use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::shared::{Guard, GuardBuilder, SharedLimiter};
use tollgate::{Clock, Decision, Error, ErrorKind, Key, Source, SystemClock};
use tollgate_memcached::Memcached;
use tollgate_testkit::servers::PATIENCE;

/// The deadline of calls that must be answered: long enough for a slow machine.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// The deadline of calls that will not be answered.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

pub(crate) fn runtime() -> Runtime {
    Runtime::new().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a test on a runtime of its own. Nothing in it may hang.
pub(crate) fn run(test: impl Future<Output = ()>) {
    runtime().block_on(async {
        let longest = 4 * PATIENCE;
        let ended = tokio::time::timeout(longest, test).await;
        assert!(ended.is_ok(), "not at its end after {longest:?}");
    });
}

/// A store that must answer, and remembers no denials.
pub(crate) async fn patient(url: impl Into<String>) -> Memcached {
    connect(url, Guard::builder().deadline(LONG).remember_denials(0)).await
}

/// A store that may not answer: a short deadline, a breaker that opens soon and probes often.
pub(crate) async fn hasty(url: impl Into<String>) -> Memcached {
    let pause = (Duration::from_millis(20), Duration::from_millis(200));
    connect(url, Guard::builder().deadline(SHORT).open_after(3).pause(pause.0, pause.1)).await
}

async fn connect(url: impl Into<String>, guard: GuardBuilder) -> Memcached {
    let store = Memcached::builder(url).connect_timeout(LONG).guard(guard).connect().await;
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// A limiter on a store.
pub(crate) fn limiter(store: &Memcached, limit: &str) -> SharedLimiter<Memcached> {
    store.limiter(limit).unwrap_or_else(|error| panic!("{limit}: {error}"))
}

/// The name of a key as the server has it.
pub(crate) fn key_of(store: &Memcached, limit: &str, key: impl Key) -> String {
    let name = store.key_of("", limit, key).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(name).unwrap_or_else(|error| panic!("{error}"))
}

/// A call that ends, however: far beyond any deadline in use, because a machine may be busy.
pub(crate) async fn in_time<T>(call: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(LONG, call).await;
    ended.unwrap_or_else(|_| panic!("a call hangs past its deadline"))
}

/// Waits until something is true, for as long as a slow machine may need.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let clock = SystemClock::new();
    let begin = clock.now();
    while !holds().await {
        assert!(clock.now().since(begin) < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the store answers for a key, breaker and connection included. Charges nothing.
pub(crate) async fn answers(limiter: &SharedLimiter<Memcached>, key: &str) {
    eventually("the store answers", || async {
        in_time(limiter.peek(key)).await.is_ok_and(|peek| peek.source() == Source::Store)
    })
    .await;
}

/// Hits that the store must decide: how many pass.
pub(crate) async fn admitted(limiter: &SharedLimiter<Memcached>, key: &str, tries: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..tries {
        let hit = limiter.within(LONG).hit(key).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(hit.source(), Source::Store | Source::DenialCache), "{:?}", hit.source());
        admitted += u64::from(hit.allowed());
    }
    admitted
}

/// That a call failed, by no fault of the caller.
pub(crate) fn fails_by_the_store(result: Result<Decision, Error>) -> Error {
    let Err(error) = result else { panic!("decided by a store that cannot: {result:?}") };
    let kinds = [ErrorKind::Unavailable, ErrorKind::Lost, ErrorKind::Store];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    error
}
