//! The goals of this project for its server, and whether this run met them.

use super::contenders::{REDIS, Scene, THROTTLECRAB, TOLLGATE};
use super::{Results, Row};
use crate::paired::Paired;
use crate::targets::Target;

/// Scene, beside whom, how many times as fast.
const SPEED: [(Scene, &str, f64); 6] = [
    (Scene::Pipelined, REDIS, 0.8),
    (Scene::Pipelined, THROTTLECRAB, 10.0),
    (Scene::Resp, REDIS, 1.0),
    (Scene::Resp, THROTTLECRAB, 1.0),
    (Scene::Http, THROTTLECRAB, 1.2),
    (Scene::Grpc, THROTTLECRAB, 1.0),
];

/// Bytes of the process with ten thousand idle connections.
const IDLE: f64 = 200e6;

pub(crate) fn check(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for (scene, peer, times) in SPEED {
        let theirs = results.row(peer, scene);
        let rows = theirs.and_then(|theirs| Some((results.ours(theirs)?, theirs)));
        targets.extend(rows.and_then(|(ours, theirs)| speed(ours, theirs, times)));
    }
    for scene in Scene::ALL {
        let peers = [REDIS, THROTTLECRAB].into_iter().filter_map(|peer| results.row(peer, scene));
        targets.extend(peers.filter_map(|theirs| tail(results.ours(theirs)?, theirs)));
    }
    let held = results.idle.iter().find(|held| held.server == TOLLGATE);
    targets.extend(held.map(|held| Target {
        goal: format!("{} idle connections in less than 200 MB", held.connections),
        reached: format!("{:.0} MB", held.resident / 1e6),
        met: Some(held.resident < IDLE),
    }));
    targets
}

fn speed(ours: &Row, theirs: &Row, times: f64) -> Option<Target> {
    let reached = Paired::of(&ours.rates(), &theirs.rates())?;
    let Paired { low, middle, high } = reached;
    Some(Target {
        goal: format!(
            "{}: at least {times}x {}",
            short(ours.contender.scene),
            theirs.contender.title
        ),
        reached: format!("{middle:.2}x ({low:.2} to {high:.2})"),
        met: reached.at_least(times),
    })
}

fn tail(ours: &Row, theirs: &Row) -> Option<Target> {
    let reached = Paired::of(&ours.tails(), &theirs.tails())?;
    let Paired { low, middle, high } = reached;
    Some(Target {
        goal: format!(
            "{}: p99.9 not later than of {}",
            short(ours.contender.scene),
            theirs.contender.title
        ),
        reached: format!("{middle:.2}x ({low:.2} to {high:.2})"),
        met: reached.at_most(1.0),
    })
}

fn short(scene: Scene) -> &'static str {
    match scene {
        Scene::Resp => "RESP",
        Scene::Pipelined => "RESP, 16 in a pipeline",
        Scene::Http => "HTTP, without rest",
        Scene::Rested => "HTTP, the same load",
        Scene::Grpc => "gRPC",
    }
}
