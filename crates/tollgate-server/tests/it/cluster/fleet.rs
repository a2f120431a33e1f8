//! Three servers, each with a line of its own to one engine.

use std::net::TcpStream;

use tokio::runtime::Runtime;
use tollgate_testkit::calls::Line;
use tollgate_testkit::servers::{Process, eventually, free_port};

use crate::server::Server;

pub(crate) const NODES: usize = 3;

/// What the servers share.
pub(crate) struct Engine {
    process: Process,
    program: &'static str,
    port: u16,
}

impl Engine {
    pub(crate) fn redis() -> Engine {
        Engine::start("redis-server")
    }

    pub(crate) fn nats() -> Engine {
        Engine::start("nats-server")
    }

    fn start(program: &'static str) -> Engine {
        let process = Process::new(program, program);
        let mut engine = Engine { process, program, port: free_port() };
        engine.again();
        engine
    }

    /// After it was killed: at its old place, and with nothing in it.
    pub(crate) fn again(&mut self) {
        let port = self.port.to_string();
        let redis = self.program == "redis-server";
        self.process.start(|command| {
            match redis {
                true => command.args(["--save", "", "--bind", "127.0.0.1", "--port", &port]),
                false => command.args(["-a", "127.0.0.1", "-p", &port]),
            };
        });
        eventually("the engine listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }
}

pub(crate) struct Fleet {
    pub(crate) engine: Engine,
    pub(crate) lines: Vec<Line>,
    pub(crate) nodes: Vec<Server>,
    urls: Vec<String>,
    limit: String,
    _runtime: Runtime,
}

impl Fleet {
    /// With one rule, `api`. The store's URL is made of the port of a line to the engine.
    pub(crate) fn start(engine: Engine, limit: &str, url: impl Fn(u16) -> String) -> Fleet {
        let runtime = tollgate_testkit::calls::runtime();
        let entered = runtime.enter();
        let lines: Vec<_> = (0..NODES).map(|_| Line::to(engine.port)).collect();
        drop(entered);
        let urls: Vec<_> = lines.iter().map(|line| url(line.port())).collect();
        let nodes = urls.iter().map(|url| node(limit, url)).collect();
        Fleet { engine, lines, nodes, urls, limit: limit.to_owned(), _runtime: runtime }
    }

    /// As `kill -9`, and another one in its place.
    pub(crate) fn kill(&mut self, index: usize) {
        self.nodes[index].process.kill();
        self.nodes[index] = node(&self.limit, &self.urls[index]);
    }

    pub(crate) fn freeze_engine(&self) {
        self.engine.process.freeze();
    }

    pub(crate) fn thaw_engine(&self) {
        self.engine.process.thaw();
    }

    pub(crate) fn kill_engine(&mut self) {
        self.engine.process.kill();
    }

    /// What a node says is used of the key that is hit.
    pub(crate) fn usage(&self, index: usize) -> u64 {
        let answer = super::load::ask(self.nodes[index].http, "GET /v1/usage").unwrap_or_default();
        let used = answer.split_once("\"used\":").map(|(_, rest)| rest);
        let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        used.map(digits)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{answer}"))
    }

    /// A number that a node tells of its store.
    pub(crate) fn figure(&self, index: usize, name: &str) -> u64 {
        let metrics = self.nodes[index].admin("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }
}

fn node(limit: &str, url: &str) -> Server {
    let store = format!("[store]\nurl = {url:?}\ndeadline = \"500ms\"\n");
    Server::told(&format!("{store}[limits]\napi = {limit:?}\n"))
}
