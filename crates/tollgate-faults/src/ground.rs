//! A store with its server, the proxy to it and its nodes, and how each fault begins and ends
//! there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{Instant, sleep};
use tollgate::shared::{AnyStore, Guard, SharedLimiter, SharedStore};
use tollgate::{Clock, Error, SystemClock, Timestamp};
use tollgate_stores::Opening;
use tollgate_testservers::PATIENCE;
use tollgate_testservers::calls::{
    Distance, Line, Overload, eventually, limiter, measure_overload,
};

use crate::cell::DEADLINE;
use crate::matrix::{Fault, LIMIT, NODES, SKEW, Store};
use crate::server::{Kind, Server};

/// How much later packets arrive, in both directions.
const DELAY: Duration = Duration::from_millis(30);

/// A clock that a fault sets ahead.
#[derive(Clone, Debug)]
struct Skewed {
    clock: SystemClock,
    ahead_micros: Arc<AtomicU64>,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        self.clock.now() + Duration::from_micros(self.ahead_micros.load(Ordering::Relaxed))
    }
}

pub(crate) struct Ground {
    store: Store,
    server: Server,
    line: Line,
    skewed: Skewed,
    nodes: Vec<AnyStore>,
    flood: Option<JoinHandle<Overload>>,
}

impl Ground {
    pub(crate) async fn set_up(store: Store, kind: Kind, fault: Fault) -> Ground {
        let server = Server::start(kind);
        let line = Line::to(server.port);
        let port = if fault == Fault::Overload {
            Distance::to(server.port, Duration::from_millis(10), bytes_per_second(store)).port()
        } else {
            line.port()
        };
        let ahead_micros = Arc::new(AtomicU64::new(0));
        let skewed = Skewed { clock: SystemClock::new(), ahead_micros };
        let mut ground = Ground { store, server, line, skewed, nodes: Vec::new(), flood: None };
        for node in 0..nodes_of(fault) {
            let clock = (fault == Fault::Skew && node == 0).then(|| ground.skewed.clone());
            ground.nodes.push(open_at_last(store, port, clock).await);
        }
        let nodes = &ground.nodes;
        eventually("the nodes have met", async || nodes.iter().all(is_whole)).await;
        ground
    }

    pub(crate) fn limiters(&self) -> Vec<SharedLimiter<AnyStore>> {
        self.nodes.iter().map(|store| limiter(store, LIMIT)).collect()
    }

    pub(crate) async fn begin(&mut self, fault: Fault, span: Duration) {
        match fault {
            Fault::Kill => block_in_place(|| self.server.kill()),
            Fault::Stop => block_in_place(|| self.server.freeze()),
            Fault::BlackHole => self.line.cut(),
            Fault::Delay => self.line.delay(DELAY),
            Fault::Reset => self.line.sever(),
            Fault::Overload => {
                let far = self.nodes[0].clone();
                let near = open_at_last(self.store, self.server.port, None).await;
                let overload = async move { measure_overload(&far, &near, 2 * span).await };
                self.flood = Some(tokio::spawn(overload));
            }
            Fault::Skew => self.set_skew(SKEW),
            Fault::Memory => block_in_place(|| self.server.say("CONFIG SET maxmemory 1")),
            Fault::Disk => block_in_place(|| self.fill_disk()),
            Fault::ScriptFlush => block_in_place(|| self.server.say("SCRIPT FLUSH")),
            Fault::DropTable => block_in_place(|| self.server.sql("DROP TABLE tollgate.counters")),
        }
    }

    /// Ends the fault that [`begin`](Ground::begin) began, and returns when nothing of it is left.
    /// Returns what was measured of an overload.
    pub(crate) async fn end(&mut self, fault: Fault) -> Option<Overload> {
        match fault {
            Fault::Kill => block_in_place(|| self.server.run()),
            Fault::Stop => block_in_place(|| self.server.thaw()),
            Fault::BlackHole | Fault::Delay | Fault::Reset => self.line.mend(),
            Fault::Overload => {
                let flood = self.flood.take()?;
                return Some(flood.await.unwrap_or_else(|error| panic!("the overload: {error}")));
            }
            Fault::Skew => self.set_skew(Duration::ZERO),
            Fault::Memory => block_in_place(|| self.server.say("CONFIG SET maxmemory 0")),
            Fault::Disk => block_in_place(|| self.free_disk()),
            // The store itself restores what it needs.
            Fault::ScriptFlush | Fault::DropTable => {}
        }
        None
    }

    fn set_skew(&self, ahead: Duration) {
        let micros = u64::try_from(ahead.as_micros()).unwrap_or(u64::MAX);
        self.skewed.ahead_micros.store(micros, Ordering::Relaxed);
    }

    /// etcd counts its space itself. For the other stores the system rejects writes.
    fn fill_disk(&self) {
        if self.server.kind != Kind::Etcd {
            return self.server.limit_files(true);
        }
        let filler = "x".repeat(100_000);
        let filled = (0..200).take_while(|_| self.server.etcdctl(&["put", "filler", &filler]));
        assert!(filled.count() < 200, "etcd is never full");
    }

    fn free_disk(&mut self) {
        if self.server.kind != Kind::Etcd {
            self.server.limit_files(false);
            // A server that could not write its log may have ended.
            return self.server.run();
        }
        let revision = self.server.revision();
        for command in [&["compact", &revision[..]][..], &["defrag"], &["alarm", "disarm"]] {
            assert!(self.server.etcdctl(command), "etcdctl {command:?}");
        }
    }
}

/// Whether a node has what it needs besides answers: replicas need their peers.
pub(crate) fn is_whole(store: &AnyStore) -> bool {
    let figures = store.report().figures;
    let value = |name| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    value("replica_missing").is_none_or(|missing| missing == 0)
        && value("replica_peers").is_none_or(|peers| peers + 1 == NODES as u64)
}

/// One node under overload: two would compete for the same keys over the slow connection, and lost
/// swaps would be measured.
fn nodes_of(fault: Fault) -> usize {
    if fault == Fault::Overload { 1 } else { NODES }
}

/// Retries, because servers listen before they answer.
async fn open_at_last(store: Store, port: u16, clock: Option<Skewed>) -> AnyStore {
    let begin = Instant::now();
    loop {
        match open(store, port, clock.clone()).await {
            Ok(store) => return store,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{}: {error}", store.name()),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn open(store: Store, port: u16, clock: Option<Skewed>) -> Result<AnyStore, Error> {
    let url = store.url(port);
    // Denials are not remembered, so that each call reaches the store.
    let guard = Guard::builder().deadline(DEADLINE).remember_denials(0);
    match (store, clock) {
        (Store::Memcached, Some(clock)) => {
            let builder = tollgate_memcached::Memcached::builder(url).guard(guard).clock(clock);
            Ok(AnyStore::new(builder.connect().await?))
        }
        (Store::Etcd, Some(clock)) => {
            let builder = tollgate_etcd::Etcd::builder(url).guard(guard).clock(clock);
            Ok(AnyStore::new(builder.connect().await?))
        }
        _ => Opening::new(url).deadline(DEADLINE).remember_denials(0).open().await,
    }
}

/// Bytes per second for a connection to a store that must be slower than this machine.
fn bytes_per_second(store: Store) -> u32 {
    match store {
        Store::Postgres => 40_000,
        Store::Memcached => 100_000,
        Store::Etcd => 150_000,
        _ => 80_000,
    }
}
