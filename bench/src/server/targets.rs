//! The goals of this project for its server, and whether this run met them.

use super::contenders::{ON_REDIS, REDIS, Scene, THROTTLECRAB, TOLLGATE};
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

/// Bytes of a used idle connection of HTTP.
const IDLE_HTTP: f64 = 8e3;

/// The least part of the speed on memory that the same port has on Redis.
const SHARED: f64 = 0.6;

/// The least part of the speed that is left while a dashboard is open.
const WATCHED: f64 = 0.99;

pub(crate) fn check(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for (scene, peer, times) in SPEED {
        let theirs = results.row(peer, scene);
        let rows = theirs.and_then(|theirs| Some((results.ours(theirs)?, theirs)));
        targets.extend(rows.and_then(|(ours, theirs)| speed(ours, theirs, times)));
    }
    for scene in Scene::SHARED {
        let rows = results.row(ON_REDIS, scene).zip(results.row(TOLLGATE, scene));
        let goal = format!("{}: on Redis at least 60 % of memory", short(scene));
        targets.extend(rows.and_then(|(ours, memory)| part(goal, ours, memory, SHARED)));
    }
    let [without, with] = [false, true].map(|watched| {
        let is =
            |row: &&Row| row.contender.scene == Scene::Watched && row.contender.watched == watched;
        results.rows.iter().find(is)
    });
    let goal = "a dashboard costs at most 1 %".to_owned();
    targets
        .extend(with.zip(without).and_then(|(with, without)| part(goal, with, without, WATCHED)));
    for scene in Scene::ALL {
        let peers = [REDIS, THROTTLECRAB].into_iter().filter_map(|peer| results.row(peer, scene));
        targets.extend(peers.filter_map(|theirs| tail(results.ours(theirs)?, theirs)));
    }
    let [resp, http] = ["RESP", "HTTP"]
        .map(|port| results.idle.iter().find(|held| held.server == TOLLGATE && held.port == port));
    targets.extend(resp.map(|held| Target {
        goal: format!("{} idle connections in less than 200 MB", held.connections),
        reached: format!("{:.0} MB", held.resident / 1e6),
        met: Some(held.resident < IDLE),
    }));
    targets.extend(http.map(|held| {
        let each = held.added / held.connections as f64;
        Target {
            goal: "a used idle connection of HTTP: at most 8 kB".to_owned(),
            reached: format!("{:.1} kB", each / 1e3),
            met: Some(each <= IDLE_HTTP),
        }
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

fn part(goal: String, ours: &Row, whole: &Row, least: f64) -> Option<Target> {
    let reached = Paired::of(&ours.rates(), &whole.rates())?;
    let Paired { low, middle, high } = reached;
    let reached_text = format!("{middle:.3} ({low:.3} to {high:.3})");
    Some(Target { goal, reached: reached_text, met: reached.at_least(least) })
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
        Scene::SharedResp => "RESP, 64 connections",
        Scene::SharedHttp => "HTTP, 64 connections",
        Scene::SharedGrpc => "gRPC, 64 connections",
        Scene::Watched => "RESP, with a dashboard",
    }
}
