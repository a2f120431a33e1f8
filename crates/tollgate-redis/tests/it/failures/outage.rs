//! The rules of the conformance suite for outages, with separate servers to break.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Runtime;
use tollgate_redis::Redis;
use tollgate_testkit::{Subject, rules};

use crate::client::runtime;
use crate::servers::{Cluster, Sentinels, Server};

/// All servers that have keys, killed and started again together.
struct Broken {
    url: String,
    servers: Mutex<Servers>,
    runtime: Runtime,
}

enum Servers {
    Cluster(Cluster),
    /// The sentinels have no replica to promote: it is broken too.
    Sentinels(Sentinels),
}

impl Broken {
    fn cluster() -> Broken {
        let cluster = Cluster::start();
        Broken::new(cluster.url(), Servers::Cluster(cluster))
    }

    fn sentinels() -> Broken {
        let sentinels = Sentinels::start_with(1, 1);
        Broken::new(sentinels.url(), Servers::Sentinels(sentinels))
    }

    fn new(url: String, servers: Servers) -> Broken {
        Broken { url, servers: Mutex::new(servers), runtime: runtime() }
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subject for Broken {
    type Store = Redis;

    fn store(&self) -> Redis {
        // A rule may have broken the servers meanwhile.
        let _on_it = self.runtime.enter();
        Redis::builder(&self.url[..]).connect_later().unwrap_or_else(|error| panic!("{error}"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn break_store(&self) -> bool {
        match &mut *self.servers() {
            Servers::Cluster(Cluster { nodes: servers })
            | Servers::Sentinels(Sentinels { servers, .. }) => {
                servers.iter_mut().for_each(Server::kill);
            }
        }
        true
    }

    fn mend_store(&self) {
        match &mut *self.servers() {
            Servers::Cluster(cluster) => {
                cluster.nodes.iter_mut().for_each(Server::restart);
                cluster.settle();
            }
            Servers::Sentinels(all) => all.servers.iter_mut().for_each(Server::restart),
        }
    }
}

#[test]
fn a_stopped_cluster_gives_errors_in_time_and_is_used_again_when_it_is_back() {
    let cluster = Broken::cluster();
    rules::outage::a_broken_store_gives_errors_in_time(&cluster);
    rules::outage::a_mended_store_answers_again(&cluster);
}

#[test]
fn without_a_cluster_the_rule_of_the_limiter_holds() {
    let cluster = Broken::cluster();
    rules::outage::without_the_store_the_rule_of_the_limiter_holds(&cluster);
}

#[test]
fn without_a_primary_the_rule_of_the_limiter_holds() {
    let sentinels = Broken::sentinels();
    rules::outage::a_broken_store_gives_errors_in_time(&sentinels);
    rules::outage::without_the_store_the_rule_of_the_limiter_holds(&Broken::sentinels());
}
