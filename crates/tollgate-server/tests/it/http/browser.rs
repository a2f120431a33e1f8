//! Requests that a web page can make a real browser send to a port of this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use tollgate_testservers::{PATIENCE, Process};

use super::Client;
use crate::server::Server;

/// A page that tries every way to use up limits, each on its own key, and reports when it is done.
const PAGE: &str = r#"<!doctype html><html><body>
<iframe name="frame"></iframe>
<form id="form" method="post" enctype="text/plain" target="frame" action="SERVER/v1/hit?limit=9/day&key=form"></form>
<script>
const send = (path, options) =>
  fetch("SERVER" + path, { mode: "no-cors", ...options }).catch(() => {});
const loaded = (element) => new Promise((done) => element.onload = element.onerror = done);
(async () => {
  const frame = loaded(document.querySelector("iframe"));
  document.querySelector("form").submit();
  await frame;
  const image = new Image();
  image.src = "SERVER/v1/check?limit=9/day&key=image";
  await loaded(image);
  await send("/v1/hit?limit=9/day&key=query", { method: "POST" });
  await send("/v1/hit", { method: "POST", body: '{"limit":"9/day","key":"body"}' });
  await send("/v1/check?limit=9/day&key=fetched");
  await send("/v1/check?limit=9/day&key=preflight", { mode: "cors", headers: { "x-forwarded-for": "x" } });
  await fetch("/done");
})();
</script></body></html>"#;

const KEYS: [&str; 6] = ["form", "image", "query", "body", "fetched", "preflight"];

/// Serves a page for every request, and reports when the page requests `/done`.
fn site(page: String) -> (SocketAddr, mpsc::Receiver<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (page, tell) = (page.clone(), tell.clone());
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                if lines.next().is_some_and(|line| line.starts_with("GET /done ")) {
                    let _ = tell.send(());
                }
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
                let _ = write!(&stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
            });
        }
    });
    (address, told)
}

fn arguments(command: &mut Command, profile: &std::path::Path) {
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--no-first-run", "--disable-extensions", "--disable-background-networking"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
}

#[test]
fn a_web_page_cannot_use_up_limits() {
    let server = Server::start(&[]);
    let (site, done) = site(PAGE.replace("SERVER", &format!("http://{}", server.http)));
    let mut chromium = Process::new("chromium", "chromium");
    let profile = chromium.dir().join("profile");
    chromium.start(|command| {
        arguments(command, &profile);
        command.arg(format!("http://{site}/"));
    });
    done.recv_timeout(PATIENCE).unwrap();
    let mut client = Client::new(server.http);
    for key in KEYS {
        let used = client.get(&format!("/v1/usage?limit=9/day&key={key}")).json();
        assert_eq!(used["used"], 0, "{key}");
    }
    // All requests arrived at this server.
    let metrics = server.admin("/metrics");
    let refused = "tollgate_connections_refused_total{port=\"http\"} ";
    let refused = metrics.lines().find_map(|line| line.strip_prefix(refused)).unwrap();
    assert!(refused.parse::<usize>().unwrap() >= KEYS.len(), "{refused}");
}

/// The attacker's name resolves to this machine, so the page has the same origin.
#[test]
fn a_rebound_dns_name_is_refused() {
    let server = Server::start(&[]);
    let profile = server.path("profile");
    for (port, path) in [(server.http, "/v1/usage?limit=9/day&key=a"), (server.admin, "/keys")] {
        let mut command = Command::new("chromium");
        arguments(&mut command, &profile);
        command.args(["--host-resolver-rules=MAP rebound.example 127.0.0.1", "--dump-dom"]);
        command.arg(format!("http://rebound.example:{}{path}", port.port()));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("rebound.example") && shown.contains("403"), "{output:?}");
    }
}
