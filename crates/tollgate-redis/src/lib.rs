//! Redis and Valkey as a store of [`tollgate`]: the same limiter across all machines of a service,
//! with the same answers to the microsecond.
//!
//! ```no_run
//! use tollgate::shared::OnFailure;
//! use tollgate_redis::Redis;
//!
//! # async fn example() -> Result<(), tollgate::Error> {
//! let store = Redis::connect("redis://127.0.0.1/").await?;
//! let limiter = store.limiter("10/second burst=20")?.on_failure(OnFailure::Open)?;
//! if !limiter.hit("user:42").await?.allowed() {
//!     // too many requests
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call is one script in one round trip, whatever the algorithm and however many limits a
//! policy has. Hits that wait at the same time share one. The time is the server's. A hit that is certain to be denied is answered from
//! memory, and when the server does not answer a call takes microseconds: see [`tollgate::shared`].
//!
//! Addresses:
//!
//! | address | what |
//! | --- | --- |
//! | `redis://user:password@host:port/database` | one server |
//! | `rediss://…` | the same with TLS |
//! | `unix:///path/to/socket?db=0` | one server on this machine |
//! | `redis+sentinel://user:password@host:port,host:port/name/database` | the primary that sentinels know by that name |
//! | `redis+cluster://user:password@host:port,host:port` | a cluster, by some of its nodes |

mod announce;
mod batch;
mod builder;
mod clear;
mod cluster;
mod command;
mod connection;
mod failure;
mod hits;
mod key;
mod node;
mod script;
mod servers;
mod target;

pub use builder::RedisBuilder;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Op;
use tollgate::hold::refuse_slots;
use tollgate::shared::{Ask, Guard, HitItem, SharedStore, StoreReport, try_write};
use tollgate::{Clock, Error, ErrorKind, KeyRef, Limit, Outcome, OwnedKey, Timestamp};

use tollgate_remote::{Announcement, Announcements, Queues, Tokio};

use announce::PubSub;
use batch::Job;
use command::{Call, Mode, Part, Rule};
use key::{Keyspace, LimitKeys};
use servers::Servers;

/// The number of breakers of a cluster: each is for a range of slots, which usually one node has.
const CLUSTER_LANES: usize = 64;

/// The most keys in one call of the script. A longer call would delay others.
const KEYS_IN_CALL: usize = 100;

/// A Redis or Valkey server, a primary behind sentinels, or a cluster. A handle: clones share one
/// connection.
///
/// See [the crate](crate) for an example and the forms of addresses.
#[derive(Clone, Debug)]
pub struct Redis {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    keyspace: Keyspace,
    servers: Servers,
    guard: Arc<Guard>,
    announcements: Announcements<PubSub>,
    /// Plain hits that wait, by queue: see `batch.rs`.
    queues: Queues<u16, Job>,
    runtime: Tokio,
    /// The clock of this machine, by which edges of calendar windows are sent.
    clock: Arc<dyn Clock>,
}

/// A limit as [`Redis`] holds it.
#[derive(Clone, Debug)]
pub struct Prepared {
    keys: Arc<LimitKeys>,
    rule: Arc<Rule>,
}

tollgate::limiters!(Redis);

impl Redis {
    /// Connects with the default settings.
    ///
    /// # Errors
    /// When the address is not valid, or the server cannot be reached.
    pub async fn connect(url: impl Into<String>) -> Result<Redis, Error> {
        Redis::builder(url).connect().await
    }

    /// A builder with other settings.
    pub fn builder(url: impl Into<String>) -> RedisBuilder {
        RedisBuilder::new(url.into())
    }

    async fn reachable(&self) -> Result<(), Error> {
        self.inner.servers.reachable().await
    }

    /// Forgets all keys of all limits in a namespace. Scans all keys of the database in slices.
    ///
    /// # Errors
    /// When a server does not answer; some keys may be gone.
    pub async fn clear_namespace(&self, namespace: &str) -> Result<(), Error> {
        let Inner { keyspace, servers, announcements, .. } = &*self.inner;
        let _announcement = announcements.of_all_keys();
        let pattern = keyspace.namespace_pattern(namespace);
        let cleared = clear::clear(servers, &pattern, |key| keyspace.is_in(namespace, key)).await;
        // Whatever the result, some keys may be fresh now.
        self.inner.guard.forget_denials();
        cleared
    }

    /// The key in Redis of a subject of a limit, for use with `redis-cli`.
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
    /// Runs the parts, and then announces what they may have changed.
    async fn ask(
        inner: Arc<Inner>,
        announcement: Option<Announcement<PubSub>>,
        parts: Vec<Part>,
        mode: Mode,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Result<Vec<Outcome>, Error> {
        let result = Inner::run(Arc::clone(&inner), parts, mode, at, deadline).await;
        inner.announcements.decided(announcement, &result);
        result
    }

    async fn run(
        inner: Arc<Inner>,
        mut parts: Vec<Part>,
        mode: Mode,
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> Result<Vec<Outcome>, Error> {
        command::check_time(at)?;
        let plain = mode == Mode::Each && parts.iter().all(Part::is_plain_hit);
        if plain && at.is_none() && parts.len() == 1 {
            let Some(hit) = parts.pop() else { return Ok(Vec::new()) };
            return Ok(vec![batch::decide(inner, hit, deadline).await?]);
        }
        let call = |parts| if plain { Call::hits(parts, at) } else { Call::steps(parts, mode, at) };
        let groups = inner.groups(&parts, mode)?;
        if groups.len() <= 1 {
            return inner.servers.run(&call(parts)).await?.into_iter().collect();
        }
        let of_group = |indexes: Vec<usize>| {
            let parts = indexes.iter().map(|index| parts[*index].clone()).collect();
            (indexes, call(parts))
        };
        let calls: Vec<(Vec<usize>, Call)> = groups.into_iter().map(of_group).collect();
        let mut decisions: Vec<Option<Outcome>> = vec![None; parts.len()];
        let answers = inner.servers.run_all(calls.iter().map(|(_, call)| call).collect()).await;
        let surely_not = |e: &Error| e.kind() == ErrorKind::Unavailable;
        let executed = answers.iter().any(|answer| !answer.as_ref().is_err_and(surely_not));
        for ((indexes, _), answer) in calls.iter().zip(answers) {
            let decided = answer.map_err(|error| if executed { in_part(error) } else { error })?;
            for (index, decision) in indexes.iter().zip(decided) {
                decisions[*index] = Some(decision?);
            }
        }
        let all: Option<Vec<Outcome>> = decisions.into_iter().collect();
        all.ok_or_else(|| Error::store("fewer decisions than keys", false))
    }

    /// Groups the parts into calls: the indexes of the parts of each.
    fn groups(&self, parts: &[Part], mode: Mode) -> Result<Vec<Vec<usize>>, Error> {
        let is_cluster = self.servers.is_cluster();
        let mut slots: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, part) in parts.iter().enumerate() {
            let slot = if is_cluster { key::slot(&part.key) } else { 0 };
            slots.entry(slot).or_default().push(index);
        }
        if mode == Mode::Each {
            let groups = slots.values().flat_map(|indexes| indexes.chunks(KEYS_IN_CALL));
            return Ok(groups.map(<[usize]>::to_vec).collect());
        }
        if slots.len() > 1 { Err(apart(parts)) } else { Ok(slots.into_values().collect()) }
    }
}

/// The error for two keys of a group that are in different slots.
fn apart(parts: &[Part]) -> Error {
    let slot = |part: &Part| key::slot(&part.key);
    let other = parts.iter().find(|part| slot(part) != slot(&parts[0])).unwrap_or(&parts[0]);
    let name = |part: &Part| part.key.escape_ascii().to_string();
    Error::request(format!(
        "keys {} and {} are in different slots of the cluster: keys that are decided together need one tag, as in Tagged(\"tenant\", key)",
        name(&parts[0]),
        name(other)
    ))
}

/// The error of a part of a call, when other parts were executed or may have been.
fn in_part(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable => {
            Error::lost(format!("some keys were decided, others not: {error}"))
        }
        _ => error,
    }
}

impl SharedStore for Redis {
    type Prepared = Prepared;

    fn prepare(&self, namespace: &str, limit: &Limit) -> Result<Prepared, Error> {
        refuse_slots(limit, "Redis")?;
        let keys = Arc::new(self.inner.keyspace.of_limit(namespace, limit));
        Ok(Prepared { keys, rule: Arc::new(Rule::new(limit, &self.inner.clock)) })
    }

    fn ask_each(
        &self,
        asks: &[Ask<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let part = |ask: &Ask<'_, Prepared>| ask.prepared.part(ask.key, ask.op);
        Inner::ask(
            Arc::clone(&self.inner),
            self.inner.announcements.of(asks.iter().map(|ask| (ask.key, ask.op))),
            asks.iter().map(part).collect(),
            Mode::Each,
            at,
            deadline,
        )
    }

    fn ask_together(
        &self,
        hits: &[HitItem<'_, Prepared>],
        at: Option<Timestamp>,
        deadline: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>> + Send + use<> {
        let part = |hit: &HitItem<'_, Prepared>| hit.prepared.part(hit.key, Op::Hit(hit.cost));
        Inner::ask(
            Arc::clone(&self.inner),
            None,
            hits.iter().map(part).collect(),
            Mode::Together,
            at,
            deadline,
        )
    }

    fn clear(&self, prepared: &Prepared) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (inner, keys) = (Arc::clone(&self.inner), Arc::clone(&prepared.keys));
        async move {
            let _announcement = inner.announcements.of_all_keys();
            clear::clear(&inner.servers, &keys.pattern(), |key| keys.includes(key)).await
        }
    }

    fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    fn lane(&self, prepared: &Prepared, key: KeyRef<'_>) -> usize {
        if !self.inner.servers.is_cluster() {
            return 0;
        }
        let slot = key::slot(&prepared.keys.key(key));
        usize::from(slot) * CLUSTER_LANES / usize::from(tollgate::key::SLOTS)
    }

    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (inner, written) = (Arc::clone(&self.inner), try_write(self));
        async move {
            inner.servers.check().await?;
            written.await
        }
    }

    fn report(&self) -> StoreReport {
        self.inner.announcements.report()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../guides/redis.md")]
mod guide {}
