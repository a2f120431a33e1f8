//! Events of the stream, and how it ends.

use std::io::{BufRead as _, BufReader};

use tollgate_testservers::PATIENCE;

use super::*;

/// The lines of a stream with this token.
fn open(server: &Server, token: &str) -> BufReader<TcpStream> {
    let token = format!("authorization: Bearer {token}");
    let stream = begin(server.admin, "GET /api/v1/stream", &[&token], "");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

/// The next event; `None` at the end of the stream.
fn next(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return Some(serde_json::from_str(data).unwrap());
        }
    }
}

#[test]
fn every_second_has_an_event_with_its_counts() {
    let server = Server::told(&("[limits]\napi = '2/hour'\n".to_owned() + &tokens()));
    let mut stream = open(&server, READ);
    assert!(next(&mut stream).is_some(), "the first one comes at once");
    hit(&server, "api", "a", 5);
    let (mut at, mut allowed, mut denied) = (0, 0, 0);
    while allowed + denied < 5 {
        let event = next(&mut stream).unwrap();
        let second = &event["second"];
        let count = |name: &str| second[name].as_u64().unwrap();
        assert!(count("at") > at);
        at = count("at");
        (allowed, denied) = (allowed + count("allowed"), denied + count("denied"));
    }
    assert_eq!((allowed, denied), (2, 3));
}

#[test]
fn a_stream_ends_when_its_token_is_removed() {
    let server = Server::told(&tokens());
    let mut stream = open(&server, READ);
    assert!(next(&mut stream).is_some());
    let others =
        format!("[auth.admin_tokens]\noperator = '{}'\n", Hash::from_token(OPERATE.as_bytes()));
    server.put("tollgate.toml", &others);
    server.process.signal("HUP");
    while next(&mut stream).is_some() {}
    assert_eq!(get(&server, "overview", READ).status, 401);
    assert_eq!(get(&server, "overview", OPERATE).status, 200);
}

#[test]
fn an_open_stream_does_not_keep_the_server_from_stopping() {
    let mut server = Server::told(&(tokens() + "[connections]\ngrace = '1 hour'\n"));
    let mut stream = open(&server, READ);
    assert!(next(&mut stream).is_some());
    server.process.signal("TERM");
    while next(&mut stream).is_some() {}
    assert_eq!(server.code(), Some(0));
}

#[test]
fn the_number_of_streams_is_bounded() {
    let server = Server::told(&tokens());
    let mut open: Vec<_> = (0..100).map(|_| open(&server, READ)).collect();
    assert!(open.iter_mut().all(|stream| next(stream).is_some()));
    assert_eq!(get(&server, "stream", READ).status, 503);
}
