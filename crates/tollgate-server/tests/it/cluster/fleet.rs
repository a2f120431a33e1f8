//! Three servers, each with its own proxied connection to one engine.

use tokio::runtime::Runtime;
use tollgate_testservers::Engine;
use tollgate_testservers::calls::Line;

use crate::server::Server;

pub(crate) const NODES: usize = 3;

pub(crate) struct Fleet {
    pub(crate) engine: Engine,
    pub(crate) lines: Vec<Line>,
    pub(crate) nodes: Vec<Server>,
    _runtime: Runtime,
}

impl Fleet {
    /// Starts the fleet with one rule, `api`. `url` makes the URL of the store from the port of a
    /// proxy to the engine.
    pub(crate) fn start(engine: Engine, limit: &str, url: impl Fn(u16) -> String) -> Fleet {
        let runtime = tollgate_testservers::calls::runtime();
        let entered = runtime.enter();
        let lines: Vec<_> = (0..NODES).map(|_| Line::to(engine.port())).collect();
        drop(entered);
        let nodes = lines.iter().map(|line| node(limit, &url(line.port()))).collect();
        Fleet { engine, lines, nodes, _runtime: runtime }
    }

    /// Kills a node as `kill -9` does.
    pub(crate) fn kill(&mut self, index: usize) {
        self.nodes[index].process.kill();
        self.start_again(index);
    }

    /// Starts a killed node again on the same ports.
    pub(crate) fn start_again(&mut self, index: usize) {
        self.nodes[index].launch(&["--config", "tollgate.toml"], |_| {});
    }

    /// The units in use that a node reports for the key of the test.
    pub(crate) fn usage(&self, index: usize) -> u64 {
        let answer = super::load::ask(self.nodes[index].http, "GET /v1/usage").unwrap_or_default();
        let used = answer.split_once("\"used\":").map(|(_, rest)| rest);
        let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        used.map(digits)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{answer}"))
    }

    /// A statistic of a node's store.
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
