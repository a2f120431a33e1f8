//! The servers and the questions.

use super::dashboard::Dashboard;
use super::process::Server;
use super::protobuf::Message;
use super::turn::{self, Turn};
use crate::Outcome;
use std::time::Duration;

pub(crate) const TOLLGATE: &str = "tollgate";
pub(crate) const ON_REDIS: &str = "tollgate on Redis";
pub(crate) const REDIS: &str = "Redis";
pub(crate) const THROTTLECRAB: &str = "throttlecrab-server";

/// A protocol, and how many questions are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Resp,
    Pipelined,
    Http,
    /// The client pauses between requests, so that all servers have the same load.
    Rested,
    Grpc,
    /// The same port on memory and on Redis.
    SharedResp,
    SharedHttp,
    SharedGrpc,
    /// With an open dashboard and without.
    Watched,
}

impl Scene {
    pub(crate) const ALL: [Scene; 9] = [
        Scene::Resp,
        Scene::Pipelined,
        Scene::Http,
        Scene::Rested,
        Scene::Grpc,
        Scene::SharedResp,
        Scene::SharedHttp,
        Scene::SharedGrpc,
        Scene::Watched,
    ];

    /// The scenes that compare tollgate on Redis with tollgate on memory.
    pub(crate) const SHARED: [Scene; 3] = [Scene::SharedResp, Scene::SharedHttp, Scene::SharedGrpc];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Scene::Resp => "RESP, one at a time on each of 50 connections",
            Scene::Pipelined => "RESP, 16 in a pipeline on each of 50 connections",
            Scene::Http => "HTTP, JSON, 50 connections",
            Scene::Rested => "HTTP, JSON, 50 connections that rest 1 to 3 ms after each answer",
            Scene::Grpc => "gRPC, 16 connections with 8 streams each",
            Scene::SharedResp => {
                "RESP, one at a time on each of 64 connections, on memory and on Redis"
            }
            Scene::SharedHttp => "HTTP, JSON, 64 connections, on memory and on Redis",
            Scene::SharedGrpc => "gRPC, 64 connections, on memory and on Redis",
            Scene::Watched => "RESP, 16 in a pipeline on each of 50 connections, with a dashboard",
        }
    }

    fn connections(self) -> usize {
        match self {
            Scene::SharedResp | Scene::SharedHttp | Scene::SharedGrpc => 64,
            Scene::Grpc => 16,
            _ => 50,
        }
    }
}

pub(crate) struct Contender {
    pub(crate) server: &'static str,
    /// The question.
    pub(crate) title: &'static str,
    pub(crate) scene: Scene,
    pub(crate) shape: Shape,
    /// Whether a dashboard is open meanwhile.
    pub(crate) watched: bool,
    ask: Ask,
}

/// How much the answer contains, which a client has to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Number,
    Fields,
}

enum Ask {
    /// Words of a command; the key differs with each.
    Command(&'static str),
    /// Path and body; the key stands for `KEY`, and differs with each.
    Json(&'static str, &'static str),
    /// Path and message; the key is one and the same.
    Message(&'static str, fn() -> Message),
}

const ALLOW: &str = "TG.ALLOW 10000/minute key:__rand_int__";

/// 100,000 keys, each with a limit that this is far below.
pub(crate) fn all() -> Vec<Contender> {
    let mut all = Vec::new();
    for scene in [Scene::Resp, Scene::Pipelined] {
        let cell = "CL.THROTTLE key:__rand_int__ 1000 10000 60";
        let crab = "THROTTLE key:__rand_int__ 1000 10000 60";
        for (server, title, shape, words) in [
            (REDIS, "Redis INCR", Shape::Number, "INCR key:__rand_int__"),
            (TOLLGATE, "tollgate TG.ALLOW", Shape::Number, ALLOW),
            (TOLLGATE, "tollgate CL.THROTTLE", Shape::Fields, cell),
            (THROTTLECRAB, "throttlecrab THROTTLE", Shape::Fields, crab),
        ] {
            all.push(Contender::new(server, title, scene, shape, Ask::Command(words)));
        }
    }
    let ours = r#"{"limit":"10000/minute burst=1000","key":"KEY"}"#;
    let theirs =
        r#"{"key":"KEY","max_burst":1000,"count_per_period":10000,"period":60,"quantity":1}"#;
    for (server, title, path, body) in [
        (TOLLGATE, "tollgate /v1/hit", "/v1/hit", ours),
        (THROTTLECRAB, "throttlecrab /throttle", "/throttle", theirs),
    ] {
        for scene in [Scene::Http, Scene::Rested] {
            all.push(Contender::new(server, title, scene, Shape::Fields, Ask::Json(path, body)));
        }
    }
    let rls = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let throttle = "/throttlecrab.RateLimiter/Throttle";
    for (server, title, ask) in [
        (TOLLGATE, "tollgate ShouldRateLimit", Ask::Message(rls, should_rate_limit)),
        (THROTTLECRAB, "throttlecrab Throttle", Ask::Message(throttle, their_throttle)),
    ] {
        all.push(Contender::new(server, title, Scene::Grpc, Shape::Fields, ask));
    }
    for (server, title) in [(TOLLGATE, "on memory"), (ON_REDIS, "on Redis")] {
        for (scene, ask) in [
            (Scene::SharedResp, Ask::Command(ALLOW)),
            (Scene::SharedHttp, Ask::Json("/v1/hit", ours)),
            (Scene::SharedGrpc, Ask::Message(rls, should_rate_limit)),
        ] {
            all.push(Contender::new(server, title, scene, Shape::Fields, ask));
        }
    }
    for (title, watched) in [("no dashboard", false), ("a dashboard is open", true)] {
        let ask = Ask::Command(ALLOW);
        let contender = Contender::new(TOLLGATE, title, Scene::Watched, Shape::Number, ask);
        all.push(Contender { watched, ..contender });
    }
    all
}

/// A descriptor with its own limit: a billion per second.
fn should_rate_limit() -> Message {
    let entry = Message::default().text(1, "key").text(2, "hot");
    let limit = Message::default().number(1, 1_000_000_000).number(2, 1);
    let descriptor = Message::default().message(1, &entry).message(2, &limit);
    Message::default().text(1, "bench").message(2, &descriptor)
}

fn their_throttle() -> Message {
    let message = Message::default().text(1, "hot").number(2, 1_000_000_000);
    message.number(3, 1_000_000_000).number(4, 1).number(5, 1)
}

impl Contender {
    fn new(
        server: &'static str,
        title: &'static str,
        scene: Scene,
        shape: Shape,
        ask: Ask,
    ) -> Contender {
        Contender { server, title, scene, shape, watched: false, ask }
    }

    pub(crate) fn turn(&self, server: &Server, span: Duration) -> Outcome<Turn> {
        let _dashboard = if self.watched { Some(Dashboard::open(server.admin)?) } else { None };
        let connections = self.scene.connections();
        let turn = match &self.ask {
            Ask::Command(words) => {
                let pipelined = matches!(self.scene, Scene::Pipelined | Scene::Watched);
                let pipeline = if pipelined { 16 } else { 1 };
                turn::redis_benchmark(server.resp, words, (connections, pipeline), span)
            }
            Ask::Json(path, body) => {
                let rests = self.scene == Scene::Rested;
                turn::wrk(server.http, (path, body), (connections, rests), span)
            }
            Ask::Message(path, message) => {
                let streams = if self.scene == Scene::Grpc { 8 } else { 1 };
                let body = message().framed();
                turn::h2load(server.grpc, (path, &body), (connections, streams), span)
            }
        };
        turn.map_err(|error| format!("{}: {error}", self.title).into())
    }
}
