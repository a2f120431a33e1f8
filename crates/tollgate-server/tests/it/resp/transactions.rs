//! `MULTI` and `EXEC`.

use std::time::Duration;

use tollgate_stores::Opening;
use tollgate_testservers::Engine;

use super::client::command;
use super::here::Here;
use super::{Client, Value};

fn simple(text: &str) -> Value {
    Value::Simple(text.to_owned())
}

fn allow(key: &str) -> Vec<u8> {
    command(&[b"TG.ALLOW", b"2/day", key.as_bytes()])
}

fn word(name: &[u8]) -> Vec<u8> {
    command(&[name])
}

#[test]
fn commands_run_when_exec_comes_and_in_order() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    assert_eq!(client.ask("MULTI"), simple("OK"));
    for command in ["TG.ALLOW 2/day a", "CL.THROTTLE b 1 1 60", "PING", "TG.ALLOW nobody a"] {
        assert_eq!(client.ask(command), simple("QUEUED"));
    }
    let mut other = Client::connect(here.address);
    assert_eq!(other.ask("TG.USAGE 2/day a").integer(), 0);
    let Value::Array(answers) = client.ask("EXEC") else { panic!("no array") };
    assert_eq!(answers[0].integer(), 1);
    assert_eq!(answers[1].integers()[..3], [0, 2, 1]);
    assert_eq!(answers[2], simple("PONG"));
    assert!(answers[3].error().starts_with("UNKNOWN "));
    assert_eq!(client.ask("TG.USAGE 2/day a").integer(), 1);
    assert_eq!(client.ask("EXEC").error(), "ERR EXEC without MULTI");
}

#[test]
fn a_command_that_cannot_be_read_aborts_all_before_anything_is_charged() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for wrong in ["GET key", "TG.ALLOW 2/day", "MULTI"] {
        client.ask("MULTI");
        client.ask("TG.ALLOW 2/day a");
        assert!(client.ask(wrong).error().starts_with("ERR "), "{wrong}");
        assert!(client.ask("EXEC").error().starts_with("EXECABORT "), "{wrong}");
    }
    client.ask("MULTI");
    client.ask("TG.ALLOW 2/day a");
    assert_eq!(client.ask("DISCARD"), simple("OK"));
    client.ask("MULTI");
    client.ask("TG.ALLOW 2/day a");
    assert_eq!(client.ask("RESET"), simple("RESET"));
    assert_eq!(client.ask("TG.USAGE 2/day a").integer(), 0);
}

#[test]
fn a_transaction_is_bounded() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    client.ask("MULTI");
    let large = command(&[b"ECHO", &[b'x'; 60_000]]);
    let answers: Vec<_> = (0..20)
        .map(|_| {
            client.send(&large);
            client.answer()
        })
        .collect();
    assert_eq!(answers[0], simple("QUEUED"));
    assert!(answers[19].error().starts_with("ERR the transaction is too large"));
    assert!(client.ask("EXEC").error().starts_with("EXECABORT "));
}

/// The transaction follows a command that waits for the store, in one pipeline.
#[test]
fn transactions_in_a_pipeline_on_redis() {
    let redis = Engine::redis(&[]);
    let here = Here::on(Opening::new(redis.url()).deadline(Duration::from_secs(20)));
    let mut client = Client::connect(here.address);
    let transaction = [word(b"MULTI"), allow("a"), allow("b"), word(b"EXEC")].concat();
    client.send(&[allow("a"), transaction.clone(), transaction, allow("c")].concat());
    assert_eq!(client.answer().integer(), 1);
    for expected in [[1, 1], [0, 1]] {
        let begin = [client.answer(), client.answer(), client.answer()];
        assert_eq!(begin, [simple("OK"), simple("QUEUED"), simple("QUEUED")]);
        assert_eq!(client.answer().integers(), expected);
    }
    assert_eq!(client.answer().integer(), 1);
}
