//! Helpers that connect stores.

use tollgate::shared::GuardBuilder;

use tollgate_postgres::Postgres;
use tollgate_testservers::calls::patient_guard;
pub(crate) use tollgate_testservers::calls::{
    LONG, Rules, admitted, answers, eventually, hasty_guard, in_time, limiter, run, runtime, stats,
};

/// A store that must answer.
pub(crate) async fn patient(url: impl Into<String>) -> Postgres {
    connect(url, patient_guard()).await
}

/// A store that may not answer.
pub(crate) async fn hasty(url: impl Into<String>) -> Postgres {
    connect(url, hasty_guard()).await
}

pub(crate) async fn connect(url: impl Into<String>, guard: GuardBuilder) -> Postgres {
    let store = Postgres::builder(url).guard(guard).connect().await;
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// A session of another client, which inspects the database or holds locks.
pub(crate) async fn session(url: &str) -> tokio_postgres::Client {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, driver) = connected.unwrap_or_else(|error| panic!("{url}: {error}"));
    tokio::spawn(driver);
    client
}
