//! Checks that denials which one process remembers end when another process gives units back. The
//! stores remember denials until they end, so nothing but an announcement ends them.

use tollgate::Source;
use tollgate::shared::{SharedLimiter, SharedStore};

use super::{admitted, eventually, limiter};

const LIMIT: &str = "3/365 days";

/// Waits until the store listens to announcements, which it does from its first denial on. Then no
/// remembered denial is dropped because the store begins to listen.
///
/// # Panics
/// When it does not listen.
pub async fn hears<S: SharedStore>(store: &S) {
    let denied = limiter(store, "1/365 days").hit_n("nobody", 2).await;
    assert!(denied.is_ok_and(|hit| !hit.allowed()), "a cost above the limit is denied");
    let hears = || async { store.report().figures.iter().any(|figure| figure.value == 1) };
    eventually("the store hears announcements", hears).await;
}

/// Uses up the limit of a key, whose denial is then remembered.
///
/// # Panics
/// When the denial is not remembered.
pub async fn exhausted<S: SharedStore>(store: &S, key: &str) -> SharedLimiter<S> {
    let limited = limiter(store, LIMIT);
    assert_eq!(admitted(&limited, key, 4).await, 3, "{key}");
    still_denied(&limited, key).await;
    limited
}

/// Checks that the denial of a key is remembered.
///
/// # Panics
/// When the denial is not remembered.
pub async fn still_denied<S: SharedStore>(limited: &SharedLimiter<S>, key: &str) {
    let hit = limited.hit(key).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((hit.allowed(), hit.source()), (false, Source::DenialCache), "{key}");
}

/// Waits until the key is admitted.
///
/// # Panics
/// When the key is not admitted.
pub async fn eventually_admits<S: SharedStore>(limited: &SharedLimiter<S>, key: &str) {
    let admits = || async { limited.hit(key).await.is_ok_and(|hit| hit.allowed()) };
    eventually("the announcement arrives", admits).await;
}

/// Checks that one store, which listens, forgets what another one resets, sets, refunds or clears.
///
/// # Panics
/// When the store still remembers a denial.
pub async fn forgets_what_another_gives_back<S: SharedStore>(one: &S, other: &S) {
    for what in ["reset", "set", "refund", "clear"] {
        let limited = exhausted(one, what).await;
        let there = limiter(other, LIMIT);
        let done = match what {
            "reset" => there.reset(what).await.map(drop),
            "set" => there.set(what, 1).await.map(drop),
            "refund" => there.refund_n(what, 1).await.map(drop),
            _ => there.clear().await,
        };
        done.unwrap_or_else(|error| panic!("{what}: {error}"));
        eventually_admits(&limited, what).await;
    }
}

/// Checks that a store whose subscription is cut forgets all that it remembers, and listens again.
/// `silent` announces nothing.
///
/// # Panics
/// When the store still remembers a denial, or does not listen again.
pub async fn forgets_all_after<S: SharedStore>(cut: impl Future<Output = ()>, one: &S, silent: &S) {
    let limited = exhausted(one, "cut").await;
    let reset = limiter(silent, LIMIT).reset("cut").await;
    assert!(reset.is_ok_and(|was_used| was_used));
    still_denied(&limited, "cut").await;
    cut.await;
    eventually_admits(&limited, "cut").await;
    hears(one).await;
}
