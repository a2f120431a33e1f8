//! A cluster of three primaries, with or without replicas.

use std::process::Command;

use super::server::Server;
use super::{PATIENCE, eventually};

/// The nodes that own slots come first.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

/// How long a node may be silent before the others report that it has failed, in milliseconds. Long
/// enough for a busy machine.
const NODE_TIMEOUT: &str = "2000";

impl Cluster {
    /// Three primaries. The others serve their slots when one fails.
    pub(crate) fn start() -> Cluster {
        let node = || {
            Server::start(&[
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                NODE_TIMEOUT,
                "--cluster-require-full-coverage",
                "no",
                "--repl-diskless-sync-delay",
                "0",
            ])
        };
        let cluster = Cluster { nodes: (0..3).map(|_| node()).collect() };
        let addresses: Vec<_> = cluster.nodes.iter().map(Server::address).collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(&addresses).arg("--cluster-yes");
        let output = create.output().unwrap_or_else(|error| panic!("redis-cli: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        cluster.settle();
        cluster
    }

    /// The same with a replica of the first node, which is the last one here.
    pub(crate) fn start_with_replica() -> Cluster {
        let mut cluster = Cluster::start();
        let replica = Server::start(&[
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            NODE_TIMEOUT,
            "--cluster-require-full-coverage",
            "no",
        ]);
        let first = &cluster.nodes[0];
        let id = cluster.id(0);
        replica.ok(&["CLUSTER", "MEET", "127.0.0.1", &first.port.to_string()]);
        eventually("the replica knows its primary", || {
            replica.cli(&["CLUSTER", "REPLICATE", &id]) == "OK"
        });
        eventually("the replica is up to date", || {
            replica.info("master_link_status").as_deref() == Some("up")
                && first.info("connected_slaves").as_deref() == Some("1")
        });
        cluster.nodes.push(replica);
        cluster.settle();
        cluster
    }

    /// Waits until all nodes agree that the cluster is healthy.
    pub(crate) fn settle(&self) {
        for node in &self.nodes {
            eventually("the node says that the cluster is well", || {
                let info = node.cli(&["CLUSTER", "INFO"]);
                let known = format!("cluster_known_nodes:{}", self.nodes.len());
                info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_ok:16384")
                    && info.contains(&known)
            });
        }
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(Server::address).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The id by which the nodes know a node.
    pub(crate) fn id(&self, node: usize) -> String {
        self.nodes[node].cli(&["CLUSTER", "MYID"])
    }

    pub(crate) fn slot_of(&self, key: &[u8]) -> u16 {
        let key = String::from_utf8_lossy(key);
        let slot = self.nodes[1].cli(&["CLUSTER", "KEYSLOT", &key]);
        slot.parse().unwrap_or_else(|error| panic!("{slot}: {error}"))
    }

    /// The first owner of a slot: each of the first three nodes gets an equal range when the
    /// cluster is created.
    pub(crate) fn first_owner(slot: u16) -> usize {
        match slot {
            0..=5460 => 0,
            5461..=10922 => 1,
            _ => 2,
        }
    }

    /// Begins to move a slot: from now on its owner redirects commands for keys that it does not
    /// have.
    pub(crate) fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        self.nodes[to].ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)]);
        self.nodes[from].ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)]);
    }

    /// Moves up to this many keys of the slot; false when there are none left.
    pub(crate) fn move_keys(&self, slot: u16, from: usize, to: usize, count: usize) -> bool {
        let (slot, count) = (slot.to_string(), count.to_string());
        let keys = self.nodes[from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot, &count]);
        let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
        if keys.is_empty() {
            return false;
        }
        let (port, patience) = (self.nodes[to].port.to_string(), PATIENCE.as_millis().to_string());
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", &patience, "KEYS"];
        migrate.extend(keys);
        let answer = self.nodes[from].cli(&migrate);
        assert!(matches!(&answer[..], "OK" | "NOKEY"), "{answer}");
        true
    }

    /// Tells all nodes that the slot has moved.
    pub(crate) fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        // The new owner first, so that there is always one.
        let rest = (0..self.nodes.len()).filter(|node| *node != to && *node != from);
        for node in [to, from].into_iter().chain(rest) {
            self.nodes[node].ok(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }
}
