//! Replicas keep to their bound, whatever fails, and agree when everything works again.

use std::time::Duration;

use tollgate_testservers::calls::Line;
use tollgate_testservers::{Engine, eventually};

use super::fleet::{Fleet, NODES};
use super::load::Load;

const LIMIT: &str = "2000/365 days fixed-window";
const L: u64 = 2_000;

fn nats(port: u16) -> String {
    format!("replicated+nats://127.0.0.1:{port}?replica.nodes=3")
}

fn redis(port: u16) -> String {
    format!("replicated+redis://127.0.0.1:{port}/?replica.nodes=3")
}

pub(super) fn all(fleet: &Fleet) -> Load {
    let servers: Vec<_> = fleet.nodes.iter().map(|node| node.http).collect();
    Load::start(&servers, 2)
}

/// Waits until every node has heard of every other.
pub(super) fn meet(fleet: &Fleet) {
    eventually("all meet", || {
        (0..NODES)
            .all(|node| fleet.figure(node, "tollgate_store_replica_peers") == NODES as u64 - 1)
    });
}

/// Waits until all nodes report the same usage, and returns it.
fn agree(fleet: &Fleet) -> u64 {
    let mut used = Vec::new();
    eventually("all agree", || {
        used = (0..NODES).map(|node| fleet.usage(node)).collect();
        used.iter().all(|other| *other == used[0])
    });
    used[0]
}

pub(super) fn exhaust(load: &Load) {
    let refused = load.refused();
    eventually("the limit is used up", || load.refused() > refused + 200);
}

fn obey_the_bound_and_agree(engine: Engine, url: impl Fn(u16) -> String) {
    let fleet = Fleet::start(engine, LIMIT, url);
    meet(&fleet);
    let load = all(&fleet);
    exhaust(&load);
    let passed = load.end();
    assert!((L..=NODES as u64 * L).contains(&passed), "{passed}");
    assert_eq!(agree(&fleet), passed);
}

#[test]
fn servers_over_nats_obey_the_bound_and_agree() {
    obey_the_bound_and_agree(Engine::nats(&[]), nats);
}

#[test]
fn servers_over_redis_obey_the_bound_and_agree() {
    obey_the_bound_and_agree(Engine::redis(&[]), redis);
}

/// Splits the fleet by a cut connection, by a suspended node, by a suspended bus and by a killed
/// bus. Each part admits at most the limit, and afterwards all agree.
#[test]
fn a_split_admits_the_limit_in_each_part_and_heals() {
    let mut fleet = Fleet::start(Engine::nats(&[]), LIMIT, nats);
    meet(&fleet);
    fleet.lines[0].cut();
    fleet.lines[1].delay(Duration::from_millis(20));
    fleet.lines[2].drip();
    let load = all(&fleet);
    eventually("some pass", || load.passed() > 500);
    fleet.nodes[1].process.freeze();
    eventually("more pass", || load.passed() > 800);
    fleet.nodes[1].process.thaw();
    fleet.engine.freeze();
    eventually("and more", || load.passed() > 1_200);
    fleet.engine.thaw();
    fleet.engine.kill();
    exhaust(&load);
    let passed = load.end();
    assert!((L..=NODES as u64 * L).contains(&passed), "{passed}");
    fleet.lines.iter().for_each(Line::mend);
    fleet.engine.again();
    meet(&fleet);
    assert_eq!(agree(&fleet), passed);
}

/// A killed node loses the counts that no other node has received. Its successor receives the other
/// counts, and then admits nothing, because the limit is used up.
#[test]
fn a_restarted_node_learns_the_counts() {
    let mut fleet = Fleet::start(Engine::nats(&[]), LIMIT, nats);
    meet(&fleet);
    let load = all(&fleet);
    exhaust(&load);
    let passed = load.end();
    let counted = agree(&fleet);
    fleet.kill(0);
    meet(&fleet);
    assert_eq!(agree(&fleet), counted);
    let again = Load::start(&[fleet.nodes[0].http], 2);
    exhaust(&again);
    assert_eq!(again.end(), 0, "after {passed}");
}
