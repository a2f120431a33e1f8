//! Every request that the server has received is answered before it ends.

use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

/// The observations of the clients of a test.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    /// The server is about to be stopped.
    told: AtomicBool,
}

impl Seen {
    fn answered(&self) {
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    fn told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }
}

/// Sends requests on one connection until the server closes it: never in the middle of an answer,
/// and never before the answer to a request that arrived before the stop.
async fn talks(address: SocketAddr, question: String, end: &'static str, seen: Arc<Seen>) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    loop {
        if socket.write_all(question.as_bytes()).await.is_err() {
            assert!(seen.told());
            return;
        }
        let must = !seen.told();
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(end) {
            let mut more = [0; 1024];
            match socket.read(&mut more).await {
                Ok(count @ 1..) => said.extend_from_slice(&more[..count]),
                Ok(0) | Err(_) => {
                    assert!(!must, "asked before it was told, and no answer");
                    assert!(said.is_empty(), "half of an answer: {said:?}");
                    return;
                }
            }
        }
        seen.answered();
        if String::from_utf8_lossy(&said).contains("connection: close") {
            assert!(seen.told());
            return;
        }
    }
}

/// The same over gRPC, where the server announces the last request that it will answer.
async fn calls(address: SocketAddr, seen: Arc<Seen>) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    loop {
        match call(&mut sender, SHOULD_RATE_LIMIT, question(), None).await {
            Ok(status) => assert_eq!(status, "0"),
            Err(error) => {
                assert!(seen.told(), "{error}");
                let never_sent = ["canceled", "closed", "not a result of an error"];
                assert!(never_sent.iter().any(|part| error.contains(part)), "{error}");
                return;
            }
        }
        seen.answered();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load_every_received_request_is_answered() {
    let mut server = Server::told("");
    let seen: Vec<Arc<Seen>> = (0..3).map(|_| Arc::default()).collect();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let http = format!("{HIT}\r\n");
        clients.spawn(talks(server.http, http, "}\n", Arc::clone(&seen[0])));
        let resp = "CL.THROTTLE a 1000000 1000000 1\r\n".to_owned();
        clients.spawn(talks(server.resp, resp, ":-1\r\n:", Arc::clone(&seen[1])));
        clients.spawn(calls(server.grpc, Arc::clone(&seen[2])));
    }
    while seen.iter().any(|seen| seen.answered.load(Ordering::SeqCst) < 500) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for seen in &seen {
        seen.told.store(true, Ordering::SeqCst);
    }
    server.process.signal("TERM");
    clients.join_all().await;
    assert_eq!(server.code(), Some(0));
}

#[tokio::test]
async fn a_server_that_will_stop_is_not_ready_and_a_second_signal_ends_it() {
    let mut server = Server::told("[connections]\ndrain_delay = '1h'\n");
    let ready = async || {
        let io = connect(server.admin, None).await.unwrap();
        exchange(io, "GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap()
    };
    assert!(ready().await.starts_with("HTTP/1.1 200 "));
    server.process.signal("TERM");
    eventually("it has heard", || server.log().contains("stopping: open requests"));
    assert!(ready().await.starts_with("HTTP/1.1 503 "));
    server.answers(None, None).await;
    // A signal right after the first does not count as a second one.
    eventually("a second word ends it", || {
        server.process.signal("INT");
        server.process.ended().is_some()
    });
    assert_eq!(server.code(), Some(2));
}

#[tokio::test]
async fn a_repeated_signal_counts_once() {
    let mut server = Server::told("");
    // The server has the head of the request, and cannot answer before the body.
    let mut asked = TcpStream::connect(server.http).await.unwrap();
    let head =
        "POST /v1/hit HTTP/1.1\r\nhost: x\r\ncontent-length: 29\r\nexpect: 100-continue\r\n\r\n";
    asked.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; 1024];
    let count = asked.read(&mut said).await.unwrap();
    assert!(said[..count].starts_with(b"HTTP/1.1 100 "), "{}", said[..count].escape_ascii());
    let id = server.process.id().unwrap();
    let both = format!("kill -s TERM {id}; kill -s INT {id}");
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    eventually("it has heard", || server.log().contains("stopping: open requests"));
    asked.write_all(br#"{"limit":"5/day","key":"ann"}"#).await.unwrap();
    let count = asked.read(&mut said).await.unwrap();
    assert!(said[..count].starts_with(b"HTTP/1.1 200 "), "{}", said[..count].escape_ascii());
    assert_eq!(server.code(), Some(0));
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_stop() {
    let mut server = Server::told("[connections]\ngrace = '1h'\n");
    let mut held = Vec::new();
    for (_, address) in server.ports() {
        held.push(TcpStream::connect(address).await.unwrap());
        let mut asked = TcpStream::connect(address).await.unwrap();
        let text =
            if address == server.resp { "PING\r\n" } else { "GET / HTTP/1.1\r\nhost: x\r\n\r\n" };
        asked.write_all(text.as_bytes()).await.unwrap();
        assert!(asked.read(&mut [0; 100]).await.unwrap() > 0);
        held.push(asked);
    }
    server.process.signal("TERM");
    assert_eq!(server.code(), Some(0));
}

#[test]
fn systemd_is_notified() {
    let dir = tollgate_testservers::Directory::new();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let heard = || {
        let mut text = [0; 100];
        let count = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..count]).into_owned()
    };
    let mut server = Server::with("", &[], |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(heard(), "READY=1");
    server.process.signal("TERM");
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(server.code(), Some(0));
}
