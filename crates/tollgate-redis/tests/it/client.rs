//! Stores with settings for tests.

use tollgate::Key;
use tollgate::shared::GuardBuilder;
use tollgate_redis::Redis;
pub(crate) use tollgate_testservers::calls::{
    LONG, Rules, SHORT, admitted, answers, eventually, fails_by_the_store, hasty_guard, hears,
    in_time, limiter, patient_guard, run, runtime, stats,
};

/// A store that must answer.
pub(crate) async fn patient(url: impl Into<String>) -> Redis {
    connect(url, patient_guard()).await
}

/// A store that may not answer.
pub(crate) async fn hasty(url: impl Into<String>) -> Redis {
    connect(url, hasty_guard()).await
}

pub(crate) async fn connect(url: impl Into<String>, guard: GuardBuilder) -> Redis {
    let store = Redis::builder(url).guard(guard).connect().await;
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// The key of a subject, for `redis-cli`.
pub(crate) fn key_of(store: &Redis, limit: &str, subject: impl Key) -> String {
    let key = store.key_of("", limit, subject).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(key).unwrap_or_else(|error| panic!("{error}"))
}
