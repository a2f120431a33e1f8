//! Stores with settings for tests.

use tollgate::shared::GuardBuilder;

use tollgate_etcd::Etcd;
use tollgate_testservers::calls::patient_guard;
pub(crate) use tollgate_testservers::calls::{
    LONG, Rules, SHORT, admitted, answers, eventually, hasty_guard, in_time, limiter, run, runtime,
    stats,
};

/// A store that must answer.
pub(crate) async fn patient(url: impl Into<String>) -> Etcd {
    connect(url, patient_guard()).await
}

/// A store that may not answer.
pub(crate) async fn hasty(url: impl Into<String>) -> Etcd {
    connect(url, hasty_guard()).await
}

pub(crate) async fn connect(url: impl Into<String>, guard: GuardBuilder) -> Etcd {
    let store = Etcd::builder(url).guard(guard).connect().await;
    store.unwrap_or_else(|error| panic!("{error}"))
}
