//! Commands that clients send when they connect.

use super::here::Here;
use super::{Client, Value};

#[test]
fn hello_chooses_the_version() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let answer = client.ask("HELLO 3 AUTH default secret SETNAME me");
    assert!(matches!(answer, Value::Map(_)), "{answer:?}");
    assert_eq!(
        (answer.field("server").text(), answer.field("proto").integer()),
        ("tollgate".to_owned(), 3)
    );
    assert_eq!(client.ask("CLIENT GETNAME"), Value::bulk("me"));
    assert_eq!(client.ask("CLIENT ID"), *answer.field("id"));
    assert!(matches!(client.ask("HELLO 2"), Value::Array(_)));
    assert!(client.ask("HELLO 4").error().starts_with("NOPROTO"));
    assert!(client.ask("HELLO three").error().starts_with("NOPROTO"));
    assert!(client.ask("HELLO 3 NONSENSE").error().contains("HELLO option"));
    // A rejected command has changed nothing.
    assert!(matches!(client.ask("HELLO"), Value::Array(_)));
}

#[test]
fn clients_find_the_commands_they_need() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for command in [
        "AUTH secret",
        "AUTH user secret",
        "SELECT 0",
        "CLIENT SETNAME me",
        "CLIENT SETINFO LIB-NAME some",
        "CLIENT SETINFO lib-ver 1.2",
        "CLIENT NO-EVICT on",
        "CLIENT TRACKING OFF",
        "READONLY",
        "READWRITE",
    ] {
        assert_eq!(client.ask(command), Value::Simple("OK".to_owned()), "{command}");
    }
    assert_eq!(client.ask("PING"), Value::Simple("PONG".to_owned()));
    assert_eq!(client.ask("ping there"), Value::bulk("there"));
    assert_eq!(client.ask("ECHO there"), Value::bulk("there"));
    assert_eq!(client.ask("CONFIG GET save"), Value::Array(vec![]));
    assert!(client.ask("INFO").text().contains("loading:0"));
    assert!(client.ask("CLIENT INFO").text().contains("name=me"));
    let count = client.ask("COMMAND COUNT").integer();
    let Value::Array(all) = client.ask("COMMAND") else { panic!("no array") };
    assert_eq!(i64::try_from(all.len()).unwrap(), count);
    let Value::Array(some) = client.ask("COMMAND INFO tg.hit nonsense") else { panic!("no array") };
    assert_eq!(some[1], Value::Null);
    assert!(
        client
            .ask("COMMAND DOCS TG.HIT")
            .field("tg.hit")
            .field("summary")
            .text()
            .contains("charge")
    );
    assert_eq!(client.ask("RESET"), Value::Simple("RESET".to_owned()));
    assert_eq!(client.ask("CLIENT GETNAME"), Value::Null);
}

#[test]
fn unsupported_commands_are_refused_as_redis_does() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (command, message) in [
        ("GET key", "ERR unknown command 'GET', with args beginning with: 'key'"),
        ("MEMORY USAGE key", "ERR unknown command 'MEMORY'"),
        ("SELECT 1", "ERR DB index is out of range"),
        ("ECHO", "ERR wrong number of arguments for 'echo' command"),
        ("CONFIG SET save x", "ERR unknown subcommand"),
        ("CLIENT KILL 1", "ERR unknown subcommand"),
        ("CLIENT TRACKING ON", "ERR tracking is not supported"),
        ("A-NAME-LONGER-THAN-ANY", "ERR unknown command"),
    ] {
        let answer = client.ask(command);
        assert!(answer.error().starts_with(message), "{command}: {answer:?}");
    }
}

#[test]
fn quit_is_answered_and_ends_the_connection() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.answer(), Value::Simple("PONG".to_owned()));
    assert_eq!(client.answer(), Value::Simple("OK".to_owned()));
    assert_eq!(client.try_answer(), None);
}

#[test]
fn a_browser_is_disconnected_at_its_first_line() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nTG.CHARGE 5/hour key\r\n");
    assert!(client.answer().error().contains("unknown command 'POST'"));
    assert_eq!(client.try_answer(), None);
    assert_eq!(Client::connect(here.address).ask("TG.USAGE 5/hour key"), Value::Integer(0));
}
