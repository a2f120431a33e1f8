//! The commands of redis-cell and throttlecrab.

use super::Client;
use super::here::Here;

#[test]
fn answers_equal_recorded_answers_of_redis_cell() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (quantity, expected) in [
        ("1", [0, 16, 15, -1, 2]),
        ("16", [1, 16, 15, 2, 2]),
        ("15", [0, 16, 0, -1, 32]),
        ("1", [1, 16, 0, 2, 32]),
        ("0", [0, 16, 0, -1, 32]),
        ("-1", [0, 16, 1, -1, 30]),
        ("17", [1, 16, 1, -1, 30]),
    ] {
        let answer = client.ask(&format!("CL.THROTTLE user 15 30 60 {quantity}"));
        assert_eq!(answer.integers(), expected, "quantity {quantity}");
    }
    assert_eq!(client.ask("cl.throttle other 15 30 60").integers(), [0, 16, 15, -1, 2]);
}

#[test]
fn throttle_answers_in_the_order_of_throttlecrab() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (quantity, expected) in [
        ("", [1, 10, 9, 2, 0]),
        (" 9", [1, 10, 0, 20, 0]),
        (" 1", [0, 10, 0, 20, 2]),
        (" 0", [1, 10, 0, 20, 0]),
        (" 11", [0, 10, 0, 20, -1]),
    ] {
        let answer = client.ask(&format!("THROTTLE user 10 30 60{quantity}"));
        assert_eq!(answer.integers(), expected, "quantity{quantity}");
    }
}

#[test]
fn a_refund_leaves_at_most_what_a_fresh_key_has() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    assert_eq!(client.ask("CL.THROTTLE user 15 30 60 -5").integers(), [0, 16, 16, -1, 0]);
}

#[test]
fn the_count_of_a_key_stays_when_its_quota_changes() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    assert_eq!(client.ask("CL.THROTTLE user 9 10 60 5").integers(), [0, 10, 5, -1, 30]);
    assert_eq!(client.ask("CL.THROTTLE user 19 10 60 1").integers()[..3], [0, 20, 14]);
}

#[test]
fn wrong_numbers_are_errors_and_never_decisions() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (arguments, message) in [
        ("1 0 60", "ERR count 0: must be at least 1"),
        ("1 1 0", "ERR period 0: must be at least 1"),
        ("-1 1 1", "ERR max_burst -1: must be at least 0"),
        ("x 1 1", "ERR max_burst 'x': must be an integer"),
        ("1 1 1 1.5", "ERR quantity '1.5': must be an integer"),
        ("1 1 1 99999999999999999999", "ERR quantity '99999999999999999999': must be an integer"),
        ("9223372036854775807 1 1", "ERR burst 9223372036854775808: must be from 1 to"),
        ("1 1 1 1 1", "ERR too many arguments"),
        ("1 9223372036854775807 1", "ERR quota 9223372036854775807: must be from 1 to"),
        ("1 1 9223372036854775807", "ERR period"),
        ("1000000000000 1 3000000000", "ERR burst"),
    ] {
        let answer = client.ask(&format!("CL.THROTTLE key {arguments}"));
        assert!(answer.error().starts_with(message), "{arguments}: {answer:?}");
    }
    assert!(client.ask("THROTTLE key 1 1 1 -1").error().contains("must not be negative"));
    assert!(client.ask("CL.THROTTLE key 1 1").error().contains("wrong number of arguments"));
    // The connection stays usable after every error.
    assert_eq!(client.ask("CL.THROTTLE key 0 1 60").integers(), [0, 1, 0, -1, 60]);
    // A quantity above every limit is denied, and no wait helps.
    let huge = client.ask("CL.THROTTLE key 0 1 60 9223372036854775807");
    assert_eq!(huge.integers()[..4], [1, 1, 0, -1]);
}

#[test]
fn keys_may_be_any_bytes() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let keys: [&[u8]; 6] = [b"", b"\0", b"\xff\xfe", b"a\r\nb", b"*1\r\n", "gr\u{fc}n".as_bytes()];
    for key in keys {
        let mut hit = || client.ask_of(&[b"CL.THROTTLE", key, b"1", b"1", b"3600"]).integers()[2];
        assert_eq!((hit(), hit()), (1, 0), "{}", key.escape_ascii());
    }
}
