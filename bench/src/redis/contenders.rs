//! The contenders: redis-benchmark, a plain pipeline, Python limits and tollgate.

use super::benchmark::Benchmark;
use super::capture;
use super::python::Python;
use super::server::Server;
use super::turn::{Turn, drive};
use crate::Outcome;
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tollgate::shared::{Guard, SharedLimiter};
use tollgate_redis::Redis;

/// Calls in flight, but for the rows of one caller.
pub(crate) const CALLERS: usize = 64;

/// Keys of the rows with many keys.
pub(crate) const KEYS: usize = 1_000;

/// Redis-benchmark writes numbers with so many digits, so our keys do too.
const HOT: &str = "000000000000";

/// Every hit is allowed, and the arrival time is ahead of the clock, as in a limiter at work.
const GCRA: &str = "1000/second burst=1000000000";
const POLICY: &str =
    "1000/second burst=1000000000; 1000000000/hour fixed-window; 1000000000/day sliding-window";
const ONCE: &str = "1/day";

const INCR: &str = "INCR, same client";
const APART: &str = "tollgate GCRA, a call for each (take)";

/// Algorithms beside GCRA. A moving window keeps every hit, so it gets a period that ends within a
/// turn.
pub(crate) const ALGORITHMS: [(&str, &str); 7] = [
    ("fixed-window", "1000000000/hour fixed-window"),
    ("fixed-window-per-key", "1000000000/hour fixed-window-per-key"),
    ("elastic-window", "1000000000/hour elastic-window"),
    ("sliding-window", "1000000000/hour sliding-window"),
    ("moving-window", "1000000000 per 100 milliseconds moving-window"),
    ("token-bucket", "1000/second burst=1000000000 token-bucket"),
    ("leaky-bucket", "1000/second burst=1000000000 leaky-bucket"),
];

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Hot,
    Keys,
    Denied,
    Policy,
    Algorithm,
    One,
    Cluster,
    ClusterHot,
}

/// The project that a contender belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Peer,
    /// As fast as a client can be.
    Yardstick,
}

pub(crate) struct Contender {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) scene: Scene,
    pub(crate) kind: Kind,
    callers: usize,
    work: Work,
}

enum Work {
    Benchmark(Benchmark),
    Plain(MultiplexedConnection, Arc<[String]>),
    Incr(MultiplexedConnection, Arc<[String]>),
    /// A take of one unit, which decides as a hit does and is a call of its own.
    Apart(SharedLimiter<Redis>, Arc<[String]>),
    Limit(SharedLimiter<Redis>, Arc<[String]>),
    Policy(SharedLimiter<Redis>),
    Python(Python, &'static str),
}

impl Contender {
    pub(crate) fn turn(&self, server: &Server, runtime: &Runtime, span: Duration) -> Outcome<Turn> {
        match &self.work {
            Work::Benchmark(benchmark) => benchmark.turn(KEYS, span),
            Work::Python(python, strategy) => {
                python.turn(&server.url(), strategy, self.callers, span)
            }
            Work::Plain(connection, keys) => {
                let (connection, keys) = (connection.clone(), Arc::clone(keys));
                let hit = move |number| plain(connection.clone(), Arc::clone(&keys), number);
                runtime.block_on(drive(self.callers, span, hit))
            }
            Work::Incr(connection, keys) => {
                let (connection, keys) = (connection.clone(), Arc::clone(keys));
                let hit = move |number| incr(connection.clone(), Arc::clone(&keys), number);
                runtime.block_on(drive(self.callers, span, hit))
            }
            Work::Apart(limiter, keys) => {
                let (limiter, keys) = (Arc::new(limiter.clone()), Arc::clone(keys));
                let hit = move |number| {
                    let (limiter, keys) = (Arc::clone(&limiter), Arc::clone(&keys));
                    async move { Ok(limiter.take(key(&keys, number), 1).await?.allowed()) }
                };
                runtime.block_on(drive(self.callers, span, hit))
            }
            Work::Limit(limiter, keys) => {
                let (limiter, keys) = (Arc::new(limiter.clone()), Arc::clone(keys));
                let hit = move |number| {
                    let (limiter, keys) = (Arc::clone(&limiter), Arc::clone(&keys));
                    async move { Ok(limiter.hit(key(&keys, number)).await?.allowed()) }
                };
                runtime.block_on(drive(self.callers, span, hit))
            }
            Work::Policy(limiter) => {
                let limiter = Arc::new(limiter.clone());
                let hit = move |_| {
                    let limiter = Arc::clone(&limiter);
                    async move { Ok(limiter.hit(&*subject(0)).await?.allowed()) }
                };
                runtime.block_on(drive(self.callers, span, hit))
            }
        }
    }
}

/// The commands that many write by hand: count and set the lifetime, in one round trip.
async fn plain(
    mut connection: MultiplexedConnection,
    keys: Arc<[String]>,
    number: usize,
) -> Outcome<bool> {
    let key = key(&keys, number);
    let mut pipeline = redis::Pipeline::with_capacity(2);
    pipeline.cmd("INCR").arg(key).cmd("PEXPIRE").arg(key).arg(1_000).ignore();
    let (count,): (u64,) = pipeline.query_async(&mut connection).await?;
    Ok(count > 0)
}

async fn incr(
    mut connection: MultiplexedConnection,
    keys: Arc<[String]>,
    number: usize,
) -> Outcome<bool> {
    let count: u64 =
        redis::cmd("INCR").arg(key(&keys, number)).query_async(&mut connection).await?;
    Ok(count > 0)
}

/// The name of a subject, as redis-benchmark writes its own.
pub(crate) fn subject(number: usize) -> String {
    format!("user:{number:012}")
}

/// One of the keys; spread so that neighbours in time are not neighbours in name.
fn key(keys: &[String], number: usize) -> &str {
    let index = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
    keys.get(index % keys.len()).map_or("", String::as_str)
}

/// A store with or without remembered denials. The deadline is far: a busy machine must not end
/// calls.
pub(crate) async fn store(server: &Server, denials: usize) -> Outcome<Redis> {
    let guard = Guard::builder().deadline(Duration::from_secs(2)).remember_denials(denials);
    Ok(Redis::builder(server.url()).guard(guard).connect().await?)
}

/// All of them, in the order of the tables.
pub(crate) fn all(
    server: &Server,
    runtime: &Runtime,
    python: Option<&Python>,
) -> Outcome<Vec<Contender>> {
    let hot: Arc<[String]> = [subject(0)].into();
    let many: Arc<[String]> = (0..KEYS).map(subject).collect();
    let redis = runtime.block_on(store(server, 100_000))?;
    let forgetful = runtime.block_on(store(server, 0))?;
    let client = redis::Client::open(server.url())?;
    // As patient as ours: on a busy machine the usual half a second can pass.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient);
    let connection = runtime.block_on(connection)?;
    let limit = |store: &Redis, limit: &str, keys: &Arc<[String]>| {
        Ok::<_, tollgate::Error>(Work::Limit(store.limiter(limit)?, Arc::clone(keys)))
    };
    let words = command(server, runtime, &redis)?;
    let spread = Benchmark::spread(&words, HOT);
    let benchmark = |words: &[String], connections, pipeline| {
        Work::Benchmark(Benchmark::new(server.port(), words, connections, pipeline))
    };
    let mut all = Vec::new();
    let mut add = |id, title, scene, kind, work| {
        let callers = if scene == Scene::One { 1 } else { CALLERS };
        all.push(Contender { id, title, scene, kind, callers, work });
    };
    {
        use Kind::{Ours, Peer, Yardstick};
        use Scene::{Denied, Hot, Keys, One, Policy};
        let [apart, together, both] = [
            "redis-benchmark -c 64 -P 1",
            "redis-benchmark -c 1 -P 64",
            "redis-benchmark -c 2 -P 32",
        ];
        add("bench-64x1", apart, Hot, Yardstick, benchmark(&words, 64, 1));
        add("bench-1x64", together, Hot, Yardstick, benchmark(&words, 1, 64));
        add("bench-2x32", both, Hot, Yardstick, benchmark(&words, 2, 32));
        let title = "INCR + PEXPIRE, same client";
        let plain = |keys: &Arc<[String]>| Work::Plain(connection.clone(), Arc::clone(keys));
        let incr = |keys: &Arc<[String]>| Work::Incr(connection.clone(), Arc::clone(keys));
        let apart_of = |keys: &Arc<[String]>| {
            Ok::<_, tollgate::Error>(Work::Apart(redis.limiter(GCRA)?, Arc::clone(keys)))
        };
        add("plain", title, Hot, Peer, plain(&hot));
        add("incr", INCR, Hot, Peer, incr(&hot));
        add("gcra-apart", APART, Hot, Ours, apart_of(&hot)?);
        add("gcra", "tollgate GCRA", Hot, Ours, limit(&redis, GCRA, &hot)?);
        add("bench-keys-64x1", apart, Keys, Yardstick, benchmark(&spread, 64, 1));
        add("bench-keys-1x64", together, Keys, Yardstick, benchmark(&spread, 1, 64));
        add("bench-keys-2x32", both, Keys, Yardstick, benchmark(&spread, 2, 32));
        add("plain-keys", title, Keys, Peer, plain(&many));
        add("incr-keys", INCR, Keys, Peer, incr(&many));
        add("gcra-keys-apart", APART, Keys, Ours, apart_of(&many)?);
        add("gcra-keys", "tollgate GCRA", Keys, Ours, limit(&redis, GCRA, &many)?);
        add("denied", "tollgate, asks every time", Denied, Ours, limit(&forgetful, ONCE, &hot)?);
        add("remembered", "tollgate, remembers denials", Denied, Ours, limit(&redis, ONCE, &hot)?);
        let work = Work::Policy(redis.limiter(POLICY)?);
        add("policy", "tollgate, policy of three limits", Policy, Ours, work);
        for (id, text) in ALGORITHMS {
            add(id, id, Scene::Algorithm, Ours, limit(&redis, text, &hot)?);
        }
        if let Some(python) = python {
            let work = |strategy| Work::Python(python.clone(), strategy);
            let [fixed, moving] = ["Python limits, fixed window", "Python limits, moving window"];
            add("limits-fixed", fixed, Hot, Peer, work("fixed-window"));
            add("limits-moving", moving, Hot, Peer, work("moving-window"));
            add("one-limits-fixed", fixed, One, Peer, work("fixed-window"));
            add("one-limits-moving", moving, One, Peer, work("moving-window"));
        }
        add("one-bench", "redis-benchmark", One, Yardstick, benchmark(&words, 1, 1));
        add("one-plain", title, One, Peer, plain(&hot));
        add("one-gcra-apart", APART, One, Ours, apart_of(&hot)?);
        add("one-gcra", "tollgate GCRA", One, Ours, limit(&redis, GCRA, &hot)?);
        add("one-denied", "tollgate, denied", One, Ours, limit(&forgetful, ONCE, &hot)?);
        let work = limit(&redis, ONCE, &hot)?;
        add("one-remembered", "tollgate, denied, remembered", One, Ours, work);
    }
    Ok(all)
}

/// Those on a cluster.
pub(crate) fn on_cluster(server: &Server, runtime: &Runtime) -> Outcome<Vec<Contender>> {
    let hot: Arc<[String]> = [subject(0)].into();
    let many: Arc<[String]> = (0..KEYS).map(subject).collect();
    let redis = runtime.block_on(store(server, 0))?;
    let contender = |id, title, scene, work| Contender {
        id,
        title,
        scene,
        kind: Kind::Ours,
        callers: CALLERS,
        work,
    };
    let limiter = redis.limiter(GCRA)?;
    let apart = |keys: &Arc<[String]>| Work::Apart(limiter.clone(), Arc::clone(keys));
    let together = |keys: &Arc<[String]>| Work::Limit(limiter.clone(), Arc::clone(keys));
    Ok(vec![
        contender("cluster-hot-apart", APART, Scene::ClusterHot, apart(&hot)),
        contender("cluster-hot", "tollgate GCRA", Scene::ClusterHot, together(&hot)),
        contender("cluster-keys-apart", APART, Scene::Cluster, apart(&many)),
        contender("cluster-keys", "tollgate GCRA", Scene::Cluster, together(&many)),
    ])
}

/// The EVALSHA of a hit on the hot key. The first hit loads the script.
fn command(server: &Server, runtime: &Runtime, redis: &Redis) -> Outcome<Vec<String>> {
    let limiter = redis.limiter(GCRA)?;
    let hit = || -> Outcome<()> {
        let decision = runtime.block_on(limiter.hit(&*subject(0)))?;
        decision.allowed().then_some(()).ok_or_else(|| "the hot key is denied".into())
    };
    hit()?;
    capture::evalsha(server, hit)
}
