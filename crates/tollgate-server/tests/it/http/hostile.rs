//! Clients that mean no good.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::Client;
use crate::server::Server;

#[test]
fn random_bytes_harm_nobody() {
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
fn what_is_too_long_is_refused() {
    let server = Server::start(&[]);
    let head = format!("POST /v1/hit?key={} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000));
    let mut client = Client::new(server.http);
    let _ = client.send(head.as_bytes());
    let status = client.read().map(|reply| reply.status);
    assert!(matches!(status, Some(414 | 431) | None), "{status:?}");

    let mut client = Client::new(server.http);
    client.send(b"POST /v1/hit HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n").unwrap();
    assert_eq!(client.read().unwrap().status, 413);

    let mut client = Client::new(server.http);
    client.send(b"POST /v1/hit HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    while client.send(chunk.as_bytes()).is_ok() {}
    assert_eq!(Client::new(server.http).get("/").status, 200);
}

#[test]
fn keys_of_any_kind_are_keys() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    for key in ["\"\"", r#""\u0000\n""#, r#""{}:/ %""#, r#"["",""]"#, r#"[]"#, r#""ключ""#] {
        let question = format!(r#"{{"limit":"1/day","key":{key}}}"#);
        assert_eq!(client.post("/v1/hit", &question).status, 200, "{key}");
        assert_eq!(client.post("/v1/hit", &question).status, 429, "{key}");
    }
}
