//! The replay of a log gives the verdicts that the server gave.
//!
//! A real nginx asks a real server about every request and writes its log. The status in a line of
//! the log is the verdict of the server. A replay must deny exactly the lines with status 429.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tollgate_testservers::{Process, eventually, free_port};

use super::{curl, tollgate};
use crate::http::proxies::{GUIDE, nginx};
use crate::server::Server;

/// The precise time at which a request ended, and how long it took.
const LOG_FORMAT: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $msec $request_time"#;

/// A server with these rules, and nginx in front of it, which logs every request.
struct Edge {
    _server: Server,
    nginx: Process,
    front: SocketAddr,
}

impl Edge {
    fn new(rules: &str) -> Edge {
        let server = Server::told(rules);
        let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let guide = GUIDE.split("```nginx\n").nth(1).and_then(|rest| rest.split("```").next());
        let config = guide
            .unwrap()
            .replace("127.0.0.1:8080", &server.http.to_string())
            .replace("127.0.0.1:8000", &front.to_string())
            .replace("127.0.0.1:9000", &crate::backend::start().to_string())
            .replace("limit=3/minute", "limit=api")
            .replace(
                "access_log off;",
                &format!("log_format precise '{LOG_FORMAT}';\n    access_log access.log precise;"),
            );
        let nginx = nginx(&config);
        eventually("nginx listens", || TcpStream::connect(front).is_ok());
        Edge { _server: server, nginx, front }
    }

    fn log(&self) -> std::path::PathBuf {
        self.nginx.dir().join("access.log")
    }

    /// Sends this many requests from this address, one after another.
    fn requests(&self, from: &str, count: usize) -> Vec<u16> {
        curl(from, &vec![format!("http://{}/hello", self.front); count])
    }

    /// Waits until the log has `count` lines, and returns them.
    fn lines(&self, count: usize) -> Vec<String> {
        let read = || std::fs::read_to_string(self.log()).unwrap_or_default();
        eventually("nginx writes its log", || read().lines().count() >= count);
        read().lines().map(str::to_owned).collect()
    }
}

/// The numbers of the lines that a replay denies.
fn denied_lines(log: &Path, dir: &Path, arguments: &[&str]) -> BTreeSet<u64> {
    let (log, out) = (log.display().to_string(), dir.join("denied.json").display().to_string());
    let (code, _, error) = tollgate(&[&["replay", &log, "--denied", &out], arguments].concat());
    assert_eq!(code, 0, "{error}");
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap();
    std::fs::read_to_string(out).unwrap().lines().map(line).collect()
}

/// The numbers of the lines whose requests the server denied.
fn limited_lines(lines: &[String]) -> BTreeSet<u64> {
    let is_limited = |line: &&(u64, &String)| line.1.contains("\" 429 ");
    let numbered: Vec<_> = (1_u64..).zip(lines).collect();
    numbered.iter().filter(is_limited).map(|(number, _)| *number).collect()
}

const RULES: &str = r#"
[limits.api]
limit = "7 per 100 days; 5 per 50 days fixed-window-per-key"
exempt = ["127.0.0.5"]

[limits.api.overrides]
"127.0.0.3" = "2 per 100 days"
"#;

#[test]
fn every_verdict_of_a_replay_is_the_one_of_the_server() {
    // Within the test no unit comes back, so the verdicts depend on keys, rules and the order of
    // requests, and not on how fast this machine is.
    let edge = Edge::new(RULES);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        for (from, count) in
            [("127.0.0.2", 4), ("127.0.0.3", 3), ("127.0.0.4", 6), ("127.0.0.5", 9)]
        {
            statuses.extend(edge.requests(from, count));
        }
    }
    let lines = edge.lines(statuses.len());
    let expected = limited_lines(&lines);
    assert_eq!(expected.len(), statuses.iter().filter(|status| **status == 429).count());
    assert_eq!(expected.len(), 3 + 4 + 7, "the server limits as its rules say: {statuses:?}");

    let dir = edge.nginx.dir();
    let rules = dir.join("rules.toml");
    std::fs::write(&rules, RULES).unwrap();
    let config = ["--config", &rules.display().to_string()];
    assert_eq!(denied_lines(&edge.log(), dir, &config), expected);

    // The comparison notices another limit, another key, and a missing exemption.
    let other = ["--limit", "6 per 100 days"];
    assert_ne!(denied_lines(&edge.log(), dir, &other), expected);
    assert_ne!(
        denied_lines(&edge.log(), dir, &[&config[..], &["--key", "path"]].concat()),
        expected
    );
    std::fs::write(&rules, RULES.replace("127.0.0.5", "127.0.0.6")).unwrap();
    assert_ne!(denied_lines(&edge.log(), dir, &config), expected);
}

/// Requests that take real time: the limit gives a unit back every 400 milliseconds.
mod real_time {
    use super::*;

    const RULES: &str = "[limits.api]\nlimit = \"1 per 400 milliseconds\"\n";

    #[test]
    fn verdicts_that_depend_on_time_are_those_of_the_server() {
        // The server decides between the start and the end of a request in the log. If a replay
        // with the starts and one with the ends agree, no request came so near to an edge that the
        // log cannot tell. On a busy machine that may take several rounds.
        for round in 1..=10 {
            let edge = Edge::new(RULES);
            let mut count = 0;
            for _ in 0..12 {
                count += edge.requests("127.0.0.2", 1).len();
                std::thread::park_timeout(Duration::from_millis(130));
            }
            let expected = limited_lines(&edge.lines(count));
            let (log, dir, limit) =
                (edge.log(), edge.nginx.dir(), ["--limit", "1 per 400 milliseconds"]);
            let by_start = denied_lines(&log, dir, &limit);
            let by_end =
                denied_lines(&log, dir, &[&limit[..], &["--field", "start=msec"]].concat());
            if by_start != by_end {
                continue;
            }
            assert_eq!(by_start, expected, "round {round}");
            assert!(!expected.is_empty() && expected.len() < count, "time decides: {expected:?}");
            // Whole seconds are not exact enough for this limit.
            let seconds =
                denied_lines(&log, dir, &[&limit[..], &["--format", "combined"]].concat());
            assert_ne!(seconds, expected);
            return;
        }
        panic!("in ten rounds the log never told the verdicts");
    }
}
