//! Stores with settings for tests.

use tollgate::Key;
use tollgate::shared::GuardBuilder;
use tollgate_memcached::Memcached;
pub(crate) use tollgate_testservers::calls::{
    LONG, admitted, answers, eventually, fails_by_the_store, in_time, limiter, run, runtime,
};
use tollgate_testservers::calls::{hasty_guard, patient_guard};

/// A store that must answer, and remembers no denials.
pub(crate) async fn patient(url: impl Into<String>) -> Memcached {
    connect(url, patient_guard().remember_denials(0)).await
}

/// A store that may not answer.
pub(crate) async fn hasty(url: impl Into<String>) -> Memcached {
    connect(url, hasty_guard()).await
}

pub(crate) async fn connect(url: impl Into<String>, guard: GuardBuilder) -> Memcached {
    // Connects without the check of `connect`, which writes a key.
    let store = Memcached::builder(url).connect_timeout(LONG).guard(guard).connect_later();
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// The name of a key on the server.
pub(crate) fn key_of(store: &Memcached, limit: &str, key: impl Key) -> String {
    let name = store.key_of("", limit, key).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(name).unwrap_or_else(|error| panic!("{error}"))
}
