//! Replicas while nodes or the bus are missing: what they admit, and what operators see.

use tollgate_testservers::{Engine, eventually};

use super::fleet::{Fleet, NODES};
use super::load::{Load, hit};
use super::replicated::{all, exhaust, meet};

/// Not divisible by the number of nodes, because shares are rounded down.
const LIMIT: &str = "1000/365 days fixed-window";
const L: u64 = 1_000;

/// The longest silence of a peer is three of these.
const HEARTBEAT: &str = "replica.heartbeat=300ms";

/// The heartbeat is so slow that no peer becomes missing by silence.
const SLOW_HEARTBEAT: &str = "replica.heartbeat=60s";

fn fleet(settings: &str) -> Fleet {
    let url = |port| format!("replicated+nats://127.0.0.1:{port}?{settings}");
    let fleet = Fleet::start(Engine::nats(&[]), LIMIT, url);
    meet(&fleet);
    fleet
}

fn missing(fleet: &Fleet, node: usize) -> u64 {
    fleet.figure(node, "tollgate_store_replica_missing")
}

fn is_ready(fleet: &Fleet, node: usize) -> bool {
    fleet.nodes[node].admin("/ready").starts_with("HTTP/1.1 200")
}

fn all_shares_and_no_more_pass(fleet: &Fleet) {
    let load = all(fleet);
    let shares = L / NODES as u64 * NODES as u64;
    eventually("each node uses its share", || load.passed() >= shares);
    exhaust(&load);
    let passed = load.end();
    assert!(passed <= L, "{passed}");
}

#[test]
fn nodes_deny_while_a_peer_is_missing_and_admit_again_when_it_is_back() {
    let mut fleet = fleet(&format!("replica.missing=closed&{HEARTBEAT}"));
    fleet.nodes[0].process.kill();
    for node in [1, 2] {
        eventually("it is missed", || missing(&fleet, node) == 1);
        eventually("nothing is admitted", || hit(fleet.nodes[node].http) == Some(false));
        let ready = fleet.nodes[node].admin("/ready");
        assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("missing nodes: 1"), "{ready}");
        fleet.nodes[node].logged("a node is missing");
        // The name of a node, which only operators see, contains its ports.
        let port = fleet.nodes[0].http.port().to_string();
        fleet.nodes[node].logged(&port);
        assert!(!ready.contains(&port), "{port}: {ready}");
    }
    fleet.start_again(0);
    meet(&fleet);
    for node in 0..NODES {
        eventually("nobody is missing", || missing(&fleet, node) == 0);
        eventually("it admits again", || hit(fleet.nodes[node].http) == Some(true));
        eventually("it is ready again", || is_ready(&fleet, node));
    }
    fleet.nodes[1].logged("a node is no longer missing");
}

#[test]
fn a_node_that_crashes_again_and_again_takes_no_share_from_the_others() {
    let mut fleet = fleet(&format!("replica.missing=share&{HEARTBEAT}"));
    for _ in 0..3 {
        fleet.kill(0);
        meet(&fleet);
    }
    // Wait until the last killed process has been silent for too long.
    for node in [1, 2] {
        eventually("only running nodes count", || {
            let peers = fleet.figure(node, "tollgate_store_replica_peers");
            (peers, missing(&fleet, node)) == (NODES as u64 - 1, 0)
        });
    }
    let load = Load::start(&[fleet.nodes[1].http, fleet.nodes[2].http], 2);
    eventually("the whole limit passes", || load.passed() >= L);
    load.end();
}

#[test]
fn shares_keep_a_split_at_the_limit_once_it_is_noticed() {
    let fleet = fleet(&format!("replica.missing=share&{HEARTBEAT}"));
    fleet.lines[0].cut();
    eventually("the split is noticed", || {
        (0..NODES).map(|node| missing(&fleet, node)).eq([2, 1, 1])
    });
    let ready = fleet.nodes[1].admin("/ready");
    let warns =
        ready.contains("\"warnings\":[\"missing nodes: 1;") && ready.contains("share of 1/3");
    assert!(ready.starts_with("HTTP/1.1 200") && warns, "{ready}");
    all_shares_and_no_more_pass(&fleet);
}

#[test]
fn without_the_bus_nodes_keep_to_shares_immediately_and_are_not_ready() {
    let mut fleet = fleet(&format!("replica.missing=share&{SLOW_HEARTBEAT}&replica.memory=3m"));
    assert!((0..NODES).all(|node| is_ready(&fleet, node)));
    fleet.engine.kill();
    for node in 0..NODES {
        eventually("it is not ready", || !is_ready(&fleet, node));
        let ready = fleet.nodes[node].admin("/ready");
        assert!(ready.contains("the bus is not connected"), "{ready}");
        assert_eq!(fleet.figure(node, "tollgate_store_replica_connected"), 0);
        assert_eq!(missing(&fleet, node), NODES as u64 - 1);
    }
    all_shares_and_no_more_pass(&fleet);
    fleet.engine.again();
    meet(&fleet);
    for node in 0..NODES {
        eventually("it is ready", || is_ready(&fleet, node) && missing(&fleet, node) == 0);
    }
}

#[test]
fn a_silent_node_is_forgotten_after_the_memory_time() {
    let mut fleet = fleet(&format!("replica.missing=closed&{HEARTBEAT}&replica.memory=3s"));
    fleet.nodes[0].process.kill();
    eventually("it is missed", || missing(&fleet, 1) == 1);
    eventually("it is forgotten", || missing(&fleet, 1) == 0);
    eventually("all is admitted", || hit(fleet.nodes[1].http) == Some(true));
}

#[test]
fn a_server_that_ends_in_order_is_not_missing() {
    let mut fleet = fleet(&format!("replica.missing=closed&{SLOW_HEARTBEAT}&replica.memory=3m"));
    fleet.nodes[0].process.signal("TERM");
    assert_eq!(fleet.nodes[0].code(), Some(0));
    // The last message of a replica that stops is that it leaves.
    for node in [1, 2] {
        eventually("it has left", || {
            fleet.figure(node, "tollgate_store_replica_peers") == NODES as u64 - 2
        });
        assert_eq!((missing(&fleet, node), hit(fleet.nodes[node].http)), (0, Some(true)));
    }
}
