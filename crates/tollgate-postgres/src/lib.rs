//! PostgreSQL as a store of [`tollgate`]: the same limiter across all machines of a service, with
//! the same answers to the microsecond.
//!
//! ```no_run
//! use tollgate::shared::OnFailure;
//! use tollgate_postgres::Postgres;
//!
//! # async fn example() -> Result<(), tollgate::Error> {
//! let store = Postgres::connect("postgres://user:password@127.0.0.1/shop").await?;
//! let limiter = store.limiter("10/second burst=20")?.on_failure(OnFailure::Open)?;
//! if !limiter.hit("user:42").await?.allowed() {
//!     // too many requests
//! }
//! # Ok(())
//! # }
//! ```
//!
//! PostgreSQL 13 or newer. All algorithms that count hits and all operations are held exactly, by
//! the clock of the server (`clock_timestamp()`).
//!
//! # How it decides
//!
//! One function in the database, `ask`, does every step: PL/pgSQL with integers and `numeric`, no
//! float, one file of this crate for each algorithm. It takes a batch: it locks the rows of all
//! keys in the order of the keys, does the steps one after another, writes what has changed and
//! answers with what each step did and the state it left, from which this process computes the
//! fields of a decision. So calls that wait at the same time share one statement, one round trip
//! and one transaction, however many callers, keys and limits there are. Hits on one key in it are
//! decided one after another; a group is all or nothing within it.
//!
//! Each step costs the server several microseconds that way. So a batch of nothing but hits on
//! GCRA, the usual one, goes to another function, `hits`: one `UPDATE` that charges all hits on a
//! key as one where all fit, and charges nothing where they do not. This process recognizes denials
//! by the returned state, and sends hits again to `ask` if only some hits on a key fit.
//!
//! The alternatives decide in this process: read the rows and write them back if they are unchanged
//! (optimistic), or lock them meanwhile. Both need two round trips and transfer the log of a moving
//! window, and with locks a process that stops in between blocks all others. They would need one
//! definition of each algorithm instead of two; the test suite of all stores compares the two on
//! random sequences.
//!
//! No two batches can wait for each other: rows that exist are locked in the order of their keys,
//! then missing ones are inserted in that order, and a batch that inserts rows waits only for
//! others that insert rows. If another session inserted one of them first, nothing is executed and
//! the batch is sent again.
//!
//! Up to four statements are under way on a connection, so that a server far away is not idle for a
//! round trip after each batch. A call waits while a statement under way has one of its keys.
//!
//! # What it costs
//!
//! | | |
//! | --- | --- |
//! | round trips | one for each batch; a single hit is a batch of one |
//! | bytes | about 400 for each statement, and for each hit about 100 and twice the length of its key; back about 70 |
//! | a row | 36 bytes of header, 32 of numbers, and the key (namespace, limit, subject: some 60 bytes); the key once more in the index |
//! | a moving window | one row of the log for each hit that counts: a hit reads two and writes one of them, however many there are. Giving back from the middle touches all later ones |
//! | transaction ids | one for each batch that changes or locks a row |
//!
//! # What can be lost
//!
//! | tables | a crash of the server | a failover to a replica |
//! | --- | --- | --- |
//! | [`Tables::Unlogged`] | all counts: at most one more limit per key is admitted | the same: replicas do not have them |
//! | [`Tables::Logged`] | nothing, with `synchronous_commit` on; else what was committed in the last moments (three times `wal_writer_delay`, 600 ms by default) | what the replica had not got yet |
//!
//! A restart that is not a crash loses nothing in either.
//!
//! # Deadlines
//!
//! Each statement carries `statement_timeout` and `lock_timeout` from the deadline of the
//! [`Guard`], so that nothing waits in the server for callers who have left. A statement that was
//! rolled back is not executed: it is sent again until its callers have left, with twice the time.
//! A row that another session holds fails only the calls about that row. A call whose answer would
//! probably come after its deadline is not sent.

mod builder;
mod clean;
mod command;
mod connection;
mod failure;
mod hits;
mod key;
mod pace;
mod queue;
mod schema;
mod target;
mod worker;

pub use builder::PostgresBuilder;
pub use schema::{Tables, schema};

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::shared::{Ask, Guard, HitItem, SharedStore, try_write};
use tollgate::{
    Algorithm, Clock, Error, ErrorKind, KeyRef, Limit, Outcome, OwnedKey, SystemClock, Timestamp,
};

use command::{Call, Part, Rule};
use key::Keys;
use worker::Worker;

/// A PostgreSQL database. A handle: clones share one connection.
///
/// See [the crate](crate) for an example.
#[derive(Clone, Debug)]
pub struct Postgres {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    schema: String,
    /// One for each connection.
    workers: Vec<Worker>,
    /// Chooses the worker of a key: always the same, so that hits on one key go together and two
    /// connections do not compete for a row.
    hasher: RandomState,
    guard: Guard,
    /// The timeout of statements that decide nothing.
    statement_timeout: Duration,
    tables: Tables,
    /// The clock of this machine, by which edges of calendar windows are sent.
    clock: Arc<dyn Clock>,
}

/// A limit as [`Postgres`] holds it.
#[derive(Clone, Debug)]
pub struct Prepared {
    keys: Arc<Keys>,
    rule: Arc<Rule>,
}

tollgate::limiters!(Postgres);

impl Postgres {
    /// Connects, with the defaults.
    ///
    /// # Errors
    /// When the address is wrong, the server cannot be reached, or it has no tables and none can be
    /// made.
    pub async fn connect(url: impl Into<String>) -> Result<Postgres, Error> {
        Postgres::builder(url).connect().await
    }

    /// A store with settings of your own.
    pub fn builder(url: impl Into<String>) -> PostgresBuilder {
        PostgresBuilder::new(url.into())
    }

    fn new(
        schema: String,
        workers: Vec<Worker>,
        guard: Guard,
        statement_timeout: Duration,
        tables: Tables,
        clock: Arc<dyn Clock>,
    ) -> Postgres {
        let hasher = RandomState::new();
        let inner = Inner { schema, workers, hasher, guard, statement_timeout, tables, clock };
        Postgres { inner: Arc::new(inner) }
    }

    async fn reachable(&self) -> Result<(), Error> {
        for worker in &self.inner.workers {
            let nothing = Call { parts: Vec::new(), at: None };
            worker.decide(vec![nothing], Timestamp::MAX).await?;
        }
        Ok(())
    }

    /// Forgets all keys of all limits in a namespace, in slices.
    ///
    /// # Errors
    /// When the server does not answer; some keys may be gone.
    pub async fn clear_namespace(&self, namespace: &str) -> Result<(), Error> {
        let Inner { schema, statement_timeout, .. } = &*self.inner;
        let prefix = key::namespace_prefix(namespace);
        let cleared =
            clean::clear(self.inner.worker(&prefix), schema, &prefix, *statement_timeout).await;
        // Even after an error some keys may be deleted.
        self.inner.guard.forget_denials();
        cleared
    }

    /// Deletes all states that have run out, in slices. Returns how many. It also happens in the
    /// background: see [`PostgresBuilder::clean_period`].
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn clean(&self) -> Result<usize, Error> {
        let Inner { schema, statement_timeout, .. } = &*self.inner;
        clean::clean(self.inner.worker(&[]), schema, *statement_timeout).await
    }

    /// The key of a subject of a limit in the table `counters`, for use with `psql`.
    ///
    /// # Errors
    /// When the limit is not valid.
    pub fn key_of<L>(
        &self,
        namespace: &str,
        limit: L,
        subject: impl tollgate::Key,
    ) -> Result<Vec<u8>, Error>
    where
        L: TryInto<Limit>,
        Error: From<L::Error>,
    {
        let prepared = self.prepare(namespace, &limit.try_into()?)?;
        Ok(prepared.keys.key(OwnedKey::new(&subject).as_key_ref()))
    }
}

impl Prepared {
    fn part(&self, key: KeyRef<'_>, op: Op) -> Part {
        Part { key: self.keys.key(key), rule: Arc::clone(&self.rule), op }
    }
}

impl Inner {
    /// The worker of this key, or the next one that has a connection.
    fn worker(&self, key: &[u8]) -> &Worker {
        let first = self.hasher.hash_one(key) as usize % self.workers.len();
        let in_order = || self.workers[first..].iter().chain(&self.workers[..first]);
        in_order().find(|worker| worker.is_up()).unwrap_or(&self.workers[first])
    }

    fn run(
        self: &Arc<Self>,
        calls: Vec<Call>,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let deadline = SystemClock::new().now() + deadline;
        let inner = Arc::clone(self);
        async move {
            command::check_time(at)?;
            inner.decide(calls, deadline).await
        }
    }

    /// Decides all calls in their order. More than fit one statement go in several, one after
    /// another.
    async fn decide(
        &self,
        mut calls: Vec<Call>,
        deadline: Timestamp,
    ) -> Result<Vec<Outcome>, Error> {
        let first = calls.iter().flat_map(|call| &call.parts).next();
        let worker = self.worker(first.map_or(&[], |part| &part.key));
        if calls.len() <= queue::BATCH {
            return worker.decide(calls, deadline).await;
        }
        let mut decisions = Vec::with_capacity(calls.len());
        while !calls.is_empty() {
            let later = calls.split_off(calls.len().min(queue::BATCH));
            let piece = worker.decide(std::mem::replace(&mut calls, later), deadline).await;
            let first = decisions.is_empty();
            decisions.extend(piece.map_err(|error| if first { error } else { in_part(error) })?);
        }
        Ok(decisions)
    }
}

/// The error of a later part of a call, when earlier parts were executed.
fn in_part(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable => {
            Error::lost(format!("some keys were decided, others not: {}", error.detail()))
        }
        _ => error,
    }
}

impl SharedStore for Postgres {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        tollgate::hold::refuse_slots(limit, "PostgreSQL")?;
        let keys = Arc::new(Keys::new(namespace, limit));
        if limit.algorithm() == Algorithm::Budget && self.inner.tables == Tables::Unlogged {
            static WARNED: std::sync::Once = std::sync::Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "unlogged tables are empty after a crash of PostgreSQL: a budget in them may be \
                     given out again; use Tables::Logged"
                );
            });
        }
        Ok(Prepared { keys, rule: Arc::new(Rule::new(limit, &self.inner.clock)) })
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let call =
            |ask: &Ask<'_, Prepared>| Call { parts: vec![ask.prepared.part(ask.key, ask.op)], at };
        self.inner.run(asks.iter().map(call).collect(), at, deadline)
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let part = |hit: &HitItem<'_, Prepared>| hit.prepared.part(hit.key, Op::Hit(hit.cost));
        let call = Call { parts: hits.iter().map(part).collect(), at };
        self.inner.run(vec![call], at, deadline)
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (inner, keys) = (Arc::clone(&self.inner), Arc::clone(&prepared.keys));
        async move {
            clean::clear(
                inner.worker(keys.prefix()),
                &inner.schema,
                keys.prefix(),
                inner.statement_timeout,
            )
            .await
        }
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (store, written) = (self.clone(), try_write(self));
        async move {
            store.reachable().await?;
            written.await
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../guides/postgres.md")]
mod guide {}
