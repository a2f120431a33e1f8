//! Broken and malicious clients.

use std::io::Write;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use tollgate_server::observe::Protocol;

use super::client::command;
use super::here::Here;
use super::{Client, Value};

fn pong() -> Value {
    Value::Simple("PONG".to_owned())
}

#[test]
fn invalid_bytes_get_an_error_and_end_the_connection() {
    let here = Here::start();
    for (bytes, message) in [
        (&b"*1\r\n$4\r\nPING\r\n*x\r\n"[..], "ERR Protocol error: invalid multibulk length"),
        (b"PING\r\n*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
        (b"PING\r\n*1\r\n$999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"PING\r\n*999999\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"PING\r\n\"open\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = Client::connect(here.address);
        client.send(bytes);
        assert_eq!(client.answer(), pong());
        assert_eq!(client.answer().error(), message);
        assert_eq!(client.try_answer(), None);
    }
}

#[test]
fn invalid_commands_are_counted() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let wrong = || here.service.observer().port(Protocol::Resp).counts().3;
    for (count, command) in [
        "FLUSHALL",
        "A-COMMAND-WITH-A-LONG-NAME 1 2",
        "TG.HIT api",
        "TG.HIT nobody key",
        "TG.HIT api key COST -1",
        "CL.THROTTLE key 1 x 1",
        "CLIENT KILL",
        "SELECT 7",
        "AUTH a b c",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(matches!(client.ask(command), Value::Error(_)), "{command}");
        assert_eq!(wrong(), count as u64 + 1, "{command}");
    }
    client.ask("PING");
    client.ask("TG.HIT api key");
    assert_eq!(wrong(), 9);
}

#[test]
fn a_command_that_is_too_large_is_refused_before_it_arrives() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    // A line without end. The server may reject it while it is still being sent.
    let _ = client.stream().write_all(&vec![b'x'; 200 << 10]);
    assert!(
        client.try_answer().is_none_or(|answer| answer.error().contains("too big inline request"))
    );
    assert!(client.ends());
    let mut client = Client::connect(here.address);
    let large = vec![b'x'; 64 << 10];
    assert_eq!(client.ask_of(&[b"ECHO", &large]), Value::Bulk(large.clone()));
    let all: Vec<&[u8]> = std::iter::repeat_n(&large[..], 17).collect();
    let _ = client.stream().write_all(&command(&all));
    assert!(client.try_answer().is_none_or(|answer| answer.error().contains("too big request")));
}

#[test]
fn random_bytes_do_not_harm_the_server() {
    let here = Here::start();
    let mut honest = Client::connect(here.address);
    let mut runner = TestRunner::deterministic();
    let noise = proptest::collection::vec(proptest::num::u8::ANY, 0..2_000);
    for _ in 0..200 {
        let bytes = noise.new_tree(&mut runner).unwrap().current();
        let client = Client::connect(here.address);
        let _ = client.stream().write_all(&bytes);
        assert_eq!(honest.ask("PING"), pong());
    }
}

#[test]
fn an_unfinished_command_is_dropped() {
    for half in [&b"*2\r\n$4\r\nECHO\r\n"[..], b"*", b"*1\r\n$4\r\nPI", b"PIN"] {
        let here = Here::without_patience();
        let mut client = Client::connect(here.address);
        client.send(half);
        assert_eq!(client.try_answer(), None, "{}", half.escape_ascii());
    }
}

#[test]
fn an_idle_connection_stays() {
    let here = Here::without_patience();
    let mut client = Client::connect(here.address);
    assert_eq!(client.ask("PING"), pong());
    // Time jumps when no task can run, and a second connection shows that it did.
    let mut other = Client::connect(here.address);
    other.send(b"PIN");
    assert_eq!(other.try_answer(), None);
    assert_eq!(client.ask("PING"), pong());
}
