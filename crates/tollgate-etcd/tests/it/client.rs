//! What tests do with a store.

use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::shared::{Guard, GuardBuilder, OnFailure, Share, SharedLimiter, SharedStore, Stats};
use tollgate::{Clock, Decision, Error, ErrorKind, Source, SystemClock};
use tollgate_etcd::Etcd;

use crate::servers::PATIENCE;

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

/// A store that must answer.
pub(crate) async fn patient(url: impl Into<String>) -> Etcd {
    connect(url, Guard::builder().deadline(LONG)).await
}

/// A store that may not answer: a short deadline, a breaker that opens soon and probes often.
pub(crate) async fn hasty(url: impl Into<String>) -> Etcd {
    connect(url, hasty_guard()).await
}

pub(crate) fn hasty_guard() -> GuardBuilder {
    let pause = (Duration::from_millis(20), Duration::from_millis(200));
    Guard::builder().deadline(SHORT).open_after(3).pause(pause.0, pause.1)
}

pub(crate) async fn connect(url: impl Into<String>, guard: GuardBuilder) -> Etcd {
    let store = Etcd::builder(url).guard(guard).connect().await;
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// A limiter on a store.
pub(crate) fn limiter(store: &Etcd, limit: &str) -> SharedLimiter<Etcd> {
    store.limiter(limit).unwrap_or_else(|error| panic!("{limit}: {error}"))
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
pub(crate) async fn answers(limiter: &SharedLimiter<Etcd>, key: &str) {
    eventually("the store answers", || async {
        in_time(limiter.peek(key)).await.is_ok_and(|peek| peek.source() == Source::Store)
    })
    .await;
}

/// Hits that the store must decide: how many pass.
pub(crate) async fn admitted(limiter: &SharedLimiter<Etcd>, key: &str, tries: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..tries {
        let hit = limiter.within(LONG).hit(key).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(hit.source(), Source::Store | Source::DenialCache), "{:?}", hit.source());
        admitted += u64::from(hit.allowed());
    }
    admitted
}

pub(crate) fn stats(store: &Etcd) -> Stats {
    store.guard().stats()
}

/// That a call failed, by no fault of the caller.
pub(crate) fn fails_by_the_store(result: Result<Decision, Error>) -> Error {
    let Err(error) = result else { panic!("decided by a store that cannot: {result:?}") };
    let kinds = [ErrorKind::Unavailable, ErrorKind::Lost, ErrorKind::Store];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    error
}

/// Limiters of one limit with each rule for failures.
pub(crate) struct Rules {
    store: Etcd,
    pub(crate) error: SharedLimiter<Etcd>,
    open: SharedLimiter<Etcd>,
    closed: SharedLimiter<Etcd>,
    local: SharedLimiter<Etcd>,
}

/// What they limit to, and the share that a local limiter has of it.
const LIMIT: &str = "8/365 days";
const SHARE: (u32, usize) = (4, 2);

impl Rules {
    pub(crate) fn on(store: &Etcd) -> Rules {
        let limiter = |on_failure| {
            let limiter = store.limiter(LIMIT).and_then(|limiter| limiter.on_failure(on_failure));
            limiter.unwrap_or_else(|error| panic!("{error}"))
        };
        let share = Share::one_of(SHARE.0).unwrap_or_else(|error| panic!("{error}"));
        Rules {
            store: store.clone(),
            error: limiter(OnFailure::Error),
            open: limiter(OnFailure::Open),
            closed: limiter(OnFailure::Closed),
            local: limiter(OnFailure::Local(share)),
        }
    }

    /// While the store cannot decide about a key, which is new to this process: each rule is kept, the decisions say so, and so do the counters.
    pub(crate) async fn hold_without_the_store(&self, key: &str) {
        let before = stats(&self.store);
        let decided = |result: Result<Decision, Error>| {
            result.unwrap_or_else(|error| panic!("an error instead of the rule: {error}"))
        };
        for round in 0..6 {
            fails_by_the_store(in_time(self.error.hit(key)).await);
            let open = decided(in_time(self.open.hit(key)).await);
            assert_eq!((open.allowed(), open.source()), (true, Source::FailOpen));
            let closed = decided(in_time(self.closed.hit(key)).await);
            assert_eq!((closed.allowed(), closed.source()), (false, Source::FailClosed));
            let local = decided(in_time(self.local.hit(key)).await);
            assert_eq!((local.allowed(), local.source()), (round < SHARE.1, Source::Fallback));
        }
        let after = stats(&self.store);
        let more = |count: fn(&Stats) -> u64| count(&after) - count(&before);
        assert!(more(|stats| stats.failed_open) >= 6, "{after:?}");
        assert!(more(|stats| stats.failed_closed) >= 6, "{after:?}");
        assert!(more(|stats| stats.fallback) >= 6, "{after:?}");
        let failed = more(|stats| stats.unavailable + stats.lost + stats.refused + stats.skipped);
        assert!(failed >= 24, "{after:?}");
    }
}
