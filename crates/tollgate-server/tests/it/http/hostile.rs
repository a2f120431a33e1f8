//! Malicious and broken clients.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use tollgate_testservers::eventually;

use super::Client;
use crate::server::Server;

#[test]
fn random_bytes_do_not_harm_the_server() {
    let server = Server::start(&[]);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let bytes = proptest::collection::vec(any::<u8>(), 0..2_000);
    for _ in 0..50 {
        let bytes = bytes.new_tree(&mut runner).unwrap().current();
        let mut client = Client::new(server.http);
        let _ = client.send(&bytes);
        let _ = client.send(b"\r\n\r\n");
    }
    assert_eq!(Client::new(server.http).post("/v1/hit?limit=1/day&key=a", "").status, 200);
}

#[test]
fn a_large_head_gets_an_answer() {
    let server = Server::start(&[]);
    let status = |head: String| {
        let mut client = Client::new(server.http);
        // The server may answer and close before it has read everything.
        let _ = client.send(head.as_bytes());
        client.read().map(|reply| reply.status)
    };
    let with = |headers: &str| {
        format!("GET /v1/check?limit=9/day&key=a HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
    };
    let large = |bytes: usize| with(&format!("x-large: {}\r\n", "x".repeat(bytes)));
    assert_eq!(status(large(100_000)), Some(200));
    assert_eq!(status(large(200_000)), Some(431));
    assert_eq!(status(large(5_000_000)), Some(431));
    let many: String = (0..150).map(|index| format!("x-{index}: 1\r\n")).collect();
    assert_eq!(status(with(&many)), Some(431));
    assert_eq!(status("GET /\u{0} HTTP/1.1\r\n\r\n".to_owned()), Some(400));
    assert_eq!(status(with("no colon here\r\n")), Some(400));
    let wrong = "tollgate_wrong_requests_total{port=\"http\"} 5";
    eventually("all are counted", || server.admin("/metrics").contains(wrong));
    server.logged("a request was rejected");
}

#[test]
fn a_long_body_is_refused() {
    let server = Server::start(&[]);
    let head = "POST /v1/hit HTTP/1.1\r\nhost: localhost\r\n";
    let mut client = Client::new(server.http);
    client.send(format!("{head}content-length: 99999999\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(client.read().unwrap().status, 413);

    let mut client = Client::new(server.http);
    client.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..20 {
        let _ = client.send(chunk.as_bytes());
    }
    assert_eq!(client.read().unwrap().status, 413);
    assert_eq!(Client::new(server.http).get("/").status, 200);
}

#[test]
fn any_bytes_can_be_a_key() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    for key in ["\"\"", r#""\u0000\n""#, r#""{}:/ %""#, r#"["",""]"#, r#"[]"#, r#""ключ""#] {
        let question = format!(r#"{{"limit":"1/day","key":{key}}}"#);
        assert_eq!(client.post("/v1/hit", &question).status, 200, "{key}");
        assert_eq!(client.post("/v1/hit", &question).status, 429, "{key}");
    }
}
