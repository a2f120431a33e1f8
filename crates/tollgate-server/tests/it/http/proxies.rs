//! Real proxies with the configurations of the guide; only ports are replaced.

use std::net::{SocketAddr, TcpStream};

use tollgate_testservers::{Process, eventually, free_port};

use super::Client;
use crate::backend;
use crate::server::Server;

pub(crate) const GUIDE: &str = include_str!("../../../../../guides/nginx-and-haproxy.md");

/// A tollgate server, a backend, and the address of the proxy between them.
struct Edge {
    server: Server,
    backend: SocketAddr,
    front: SocketAddr,
}

impl Edge {
    fn new() -> Edge {
        let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Edge { server: Server::start(&[]), backend: backend::start(), front }
    }

    /// Code blocks of the guide in a language, with the ports of this test.
    fn blocks(&self, language: &str) -> Vec<String> {
        let fence = format!("```{language}\n");
        let rest = GUIDE.split(&fence).skip(1);
        let blocks = rest.map(|rest| rest.split_once("```").unwrap().0);
        let ported = blocks.map(|block| {
            block
                .replace("127.0.0.1:8080", &self.server.http.to_string())
                .replace("127.0.0.1:8000", &self.front.to_string())
                .replace("127.0.0.1:9000", &self.backend.to_string())
        });
        ported.collect()
    }

    /// The status of a request with these headers.
    fn status(&self, headers: &[u8]) -> u16 {
        let mut client = Client::new(self.front);
        let head = b"GET /hello HTTP/1.1\r\nhost: shop.example\r\n";
        client.send(&[head, headers, b"\r\n"].concat()).unwrap();
        client.read().unwrap().status
    }

    fn get(&self) -> u16 {
        self.status(b"")
    }

    /// Three requests pass, then the limit of the guide is reached, whatever headers the client
    /// sends.
    fn limits(&self) {
        eventually("the proxy listens", || TcpStream::connect(self.front).is_ok());
        assert_eq!([self.get(), self.get(), self.get(), self.get()], [200, 200, 200, 429]);
        let refused = Client::new(self.front).get("/hello");
        assert!(refused.header("ratelimit").is_some_and(|value| value.contains("r=0")));
        let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=20).contains(&retry), "{refused:?}");
        // The largest header that the proxy accepts.
        let large = format!("x-large: {}\r\n", "x".repeat(7_000));
        let many: String = (0..90).map(|index| format!("x-{index}: 1\r\n")).collect();
        for headers in [
            large.as_bytes(),
            many.as_bytes(),
            b"x-key: other\r\nx-forwarded-for: 192.0.2.1\r\n",
            b"x-bytes: \xff\xfe\r\n",
            b"origin: https://evil.example\r\nsec-fetch-site: cross-site\r\n",
            b"content-length: 0\r\nexpect: nothing\r\n",
        ] {
            let shown = String::from_utf8_lossy(&headers[..headers.len().min(40)]);
            assert_eq!(self.status(headers), 429, "{shown}");
        }
    }
}

pub(crate) fn nginx(config: &str) -> Process {
    let mut nginx = Process::new("nginx", "nginx-light");
    let dir = nginx.dir().to_owned();
    std::fs::write(dir.join("nginx.conf"), config).unwrap();
    nginx.start(|command| {
        // A single process: workers would outlive a killed master.
        command.args(["-g", "master_process off;", "-c", "nginx.conf", "-p"]).arg(&dir);
    });
    nginx
}

#[test]
fn nginx_limits_and_fails_closed() {
    let mut edge = Edge::new();
    let _nginx = nginx(&edge.blocks("nginx")[0]);
    edge.limits();
    // More than a hundred headers, and as many bytes as nginx accepts.
    let many: String = (0..400).map(|index| format!("x-{index}: 1\r\n")).collect();
    assert_eq!(edge.status(many.as_bytes()), 429);
    let large = format!("x-large: {}\r\n", "x".repeat(8_000)).repeat(3);
    assert_eq!(edge.status(large.as_bytes()), 429);
    edge.server.process.kill();
    assert_eq!(edge.get(), 500);
}

#[test]
fn nginx_fails_open_where_it_is_configured_to() {
    let mut edge = Edge::new();
    let blocks = edge.blocks("nginx");
    let [whole, open, location] = &blocks[..] else { panic!("{blocks:?}") };
    let closed = "            error_page 403 = @limited;\n";
    assert!(open.contains(closed.trim()) && whole.contains(closed));
    let config = whole.replace(closed, open);
    let config = config
        .replace("        location @limited", &format!("{location}\n        location @limited"));
    let _nginx = nginx(&config);
    edge.limits();
    let many: String = (0..400).map(|index| format!("x-{index}: 1\r\n")).collect();
    assert_eq!(edge.status(many.as_bytes()), 429);
    let large = format!("x-large: {}\r\n", "x".repeat(8_000)).repeat(3);
    assert_eq!(edge.status(large.as_bytes()), 429);
    edge.server.process.kill();
    assert_eq!(edge.get(), 200);
}

#[test]
fn haproxy_limits_and_fails_open() {
    let mut edge = Edge::new();
    let mut haproxy = Process::new("haproxy", "haproxy");
    let dir = haproxy.dir().to_owned();
    std::fs::write(dir.join("limit.lua"), &edge.blocks("lua")[0]).unwrap();
    std::fs::write(dir.join("haproxy.cfg"), &edge.blocks("haproxy")[0]).unwrap();
    haproxy.start(|command| {
        command.args(["-db", "-f", "haproxy.cfg"]);
    });
    edge.limits();
    edge.server.process.kill();
    assert_eq!(edge.get(), 200);
}
