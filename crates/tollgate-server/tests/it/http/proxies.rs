//! Real proxies in front, with the configurations of the guide.

use std::net::{SocketAddr, TcpStream};

use tollgate_testkit::servers::{Process, eventually, free_port};

use super::Client;
use crate::server::Server;

const GUIDE: &str = include_str!("../../../../../guides/nginx-and-haproxy.md");

/// A block of the guide, with the ports of this test in the place of those written there.
fn block(language: &str, server: &Server, front: SocketAddr) -> String {
    let (_, rest) = GUIDE.split_once(&format!("```{language}\n")).unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    block
        .replace("127.0.0.1:8080", &server.http.to_string())
        .replace("127.0.0.1:8000", &front.to_string())
}

fn front() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Three pass, then the limit of the guide is reached.
fn limits(front: SocketAddr) {
    eventually("the proxy listens", || TcpStream::connect(front).is_ok());
    let ask = || Client::new(front).get("/hello");
    let statuses: Vec<_> = (0..4).map(|_| ask().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    let refused = ask();
    assert_eq!(refused.status, 429);
    assert!(refused.header("ratelimit").is_some_and(|value| value.contains("r=0")), "{refused:?}");
    let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&retry), "{refused:?}");
}

#[test]
fn nginx_asks_before_it_passes_a_request_on() {
    let (server, front) = (Server::start(&[]), front());
    // `return` answers before anybody is asked: a file stands in its place, as in a real configuration.
    let config = block("nginx", &server, front).replace("return 200 \"hello\\n\";", "root html;");
    // One process: workers would outlive a master that is killed.
    let config = config.replace("daemon off;", "daemon off; master_process off;");
    let mut nginx = Process::new("nginx", "nginx-light");
    let dir = nginx.dir().to_owned();
    std::fs::create_dir_all(dir.join("html")).unwrap();
    std::fs::write(dir.join("html/hello"), "hello").unwrap();
    std::fs::write(dir.join("nginx.conf"), config).unwrap();
    nginx.start(|command| {
        command.arg("-p").arg(&dir).args(["-c", "nginx.conf"]);
    });
    limits(front);
}

#[test]
fn haproxy_asks_before_it_passes_a_request_on() {
    let (server, front) = (Server::start(&[]), front());
    let mut haproxy = Process::new("haproxy", "haproxy");
    let dir = haproxy.dir().to_owned();
    std::fs::write(dir.join("limit.lua"), block("lua", &server, front)).unwrap();
    std::fs::write(dir.join("haproxy.cfg"), block("haproxy", &server, front)).unwrap();
    haproxy.start(|command| {
        command.args(["-db", "-f", "haproxy.cfg"]);
    });
    limits(front);
}
