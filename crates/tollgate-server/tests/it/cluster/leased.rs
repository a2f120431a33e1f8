//! Leases never admit more than the limit, whatever fails.

use std::time::Duration;

use tollgate::{Clock, SystemClock};
use tollgate_testservers::{Engine, eventually};

use super::fleet::{Fleet, NODES};
use super::load::{Load, hit};

fn leased(port: u16) -> String {
    format!("leased+redis://127.0.0.1:{port}/?lease.nodes=3&lease.longest=200ms")
}

fn load(fleet: &Fleet) -> Load {
    let servers: Vec<_> = fleet.nodes.iter().map(|node| node.http).collect();
    Load::start(&servers, 2)
}

/// A window that does not end in the test, so that the total is exactly the limit.
#[test]
fn three_servers_admit_exactly_the_limit() {
    let fleet = Fleet::start(Engine::redis(&[]), "3000/365 days fixed-window", leased);
    let load = load(&fleet);
    eventually("the limit is used up", || load.passed() == 3_000);
    let before = load.refused();
    eventually("more is refused", || load.refused() > before + 300);
    assert_eq!(load.end(), 3_000);
    let saved: u64 =
        (0..NODES).map(|node| fleet.figure(node, "tollgate_store_round_trips_saved_total")).sum();
    assert!(saved > 1_500, "{saved} of 3000");
}

/// Connections are delayed, slowed, silenced and cut; nodes and the store are suspended; a node
/// dies.
#[test]
fn failures_never_admit_more_than_the_limit() {
    let mut fleet = Fleet::start(Engine::redis(&[]), "3000/365 days fixed-window", leased);
    let load = load(&fleet);
    let some_pass = |load: &Load| {
        let (passed, refused) = (load.passed(), load.refused());
        eventually("hits are decided", || {
            load.passed() > passed + 100 || load.refused() > refused + 100
        });
    };
    some_pass(&load);
    fleet.lines[0].delay(Duration::from_millis(30));
    fleet.lines[1].drip();
    some_pass(&load);
    fleet.lines[2].cut();
    some_pass(&load);
    for line in &fleet.lines {
        line.mend();
    }
    fleet.nodes[1].process.freeze();
    some_pass(&load);
    fleet.nodes[1].process.thaw();
    fleet.lines[0].sever();
    some_pass(&load);
    fleet.lines[0].mend();
    fleet.engine.freeze();
    fleet.engine.thaw();
    some_pass(&load);
    let passed = load.end();
    assert!(passed <= 3_000, "{passed}");
    // The allotments of a dead node are lost, and no more than that.
    fleet.kill(0);
    let more = Load::start(&[fleet.nodes[0].http, fleet.nodes[2].http], 2);
    eventually("nothing is left", || more.refused() > 200);
    let total = passed + more.end();
    assert!((2_000..=3_000).contains(&total), "{total}");
}

/// A bucket admits at most its burst and what has flowed back since.
#[test]
fn a_bucket_admits_no_more_than_burst_and_rate() {
    let mut fleet = Fleet::start(Engine::redis(&[]), "300/second burst=200", leased);
    let clock = SystemClock::new();
    let begin = clock.now();
    let load = load(&fleet);
    eventually("much passes", || load.passed() > 400);
    fleet.nodes[2].process.freeze();
    eventually("more passes", || load.passed() > 600);
    fleet.nodes[2].process.thaw();
    eventually("and more", || load.passed() > 800);
    let passed = load.end();
    let micros = clock.now().since(begin).as_micros();
    let allowed = 200 + 300 * micros / 1_000_000 + 1;
    assert!(u128::from(passed) <= allowed, "{passed} in {micros} microseconds");
    fleet.engine.kill();
    fleet.engine.again();
    eventually("a new store answers", || hit(fleet.nodes[0].http) == Some(true));
}

/// A server that stops in order gives its allotments back.
#[test]
fn a_server_that_stops_gives_allotments_back() {
    let mut fleet = Fleet::start(Engine::redis(&[]), "1000/365 days fixed-window", leased);
    let first = Load::start(&[fleet.nodes[0].http], 1);
    eventually("some pass", || first.passed() > 200);
    let passed = first.end();
    fleet.nodes[0].process.signal("TERM");
    assert_eq!(fleet.nodes[0].code(), Some(0));
    let second = Load::start(&[fleet.nodes[1].http], 2);
    eventually("nothing is left", || second.refused() > 100);
    assert_eq!(passed + second.end(), 1_000);
}
