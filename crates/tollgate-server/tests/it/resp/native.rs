//! tollgate's own commands.

use super::here::Here;
use super::{Client, Value};
use tollgate_server::rules::RuleSet;
use tollgate_server::service::Defaults;

fn numbers(answer: &Value) -> [i64; 5] {
    ["allowed", "limit", "remaining", "used", "charged"].map(|name| answer.field(name).integer())
}

#[test]
fn every_operation_has_a_command() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (command, expected) in [
        ("TG.HIT 5/hour key", [1, 5, 4, 1, 1]),
        ("TG.HIT 5/hour key COST 3", [1, 5, 1, 4, 3]),
        ("TG.PEEK 5/hour key cost 2", [0, 5, 1, 4, 0]),
        ("TG.TAKE 5/hour key COST 9", [1, 5, 0, 5, 1]),
        ("TG.CHARGE 5/hour key COST 2", [1, 5, 0, 7, 2]),
        ("TG.REFUND 5/hour key COST 4", [1, 5, 2, 3, 0]),
        ("TG.SET 5/hour key 4", [1, 5, 1, 4, 0]),
    ] {
        let answer = client.ask(command);
        assert_eq!(numbers(&answer), expected, "{command}: {answer:?}");
        assert_eq!(answer.field("source"), &Value::bulk("store"));
    }
    assert_eq!(client.ask("TG.USAGE 5/hour key"), Value::Integer(4));
    assert_eq!(client.ask("TG.RESET 5/hour key"), Value::Integer(1));
    assert_eq!(client.ask("TG.RESET 5/hour key"), Value::Integer(0));
    assert_eq!(client.ask("TG.USAGE 5/hour key"), Value::Integer(0));
}

#[test]
fn tg_allow_answers_one_or_zero() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (command, passes) in [
        ("TG.ALLOW 5/hour key COST 4", 1),
        ("TG.ALLOW 5/hour key COST 2", 0),
        ("TG.ALLOW 5/hour key", 1),
        ("TG.ALLOW 5/hour key", 0),
        ("TG.ALLOW api mallory", 0),
        ("TG.ALLOW api root", 1),
        ("TG.ALLOW login alice NAMESPACE web", 1),
    ] {
        assert_eq!(client.ask(command), Value::Integer(passes), "{command}");
    }
    // An invalid command gets an error, not a decision.
    assert!(client.ask("TG.ALLOW nobody key").error().starts_with("UNKNOWN limit"));
}

#[test]
fn waits_are_in_microseconds_and_missing_for_costs_that_never_fit() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let limit = "1/hour fixed-window-per-key";
    let mut hit =
        |cost: &str| client.ask_of(&[b"TG.HIT", limit.as_bytes(), b"k", b"COST", cost.as_bytes()]);
    assert_eq!(hit("1").field("retry_after").integer(), 0);
    let retry = hit("1").field("retry_after").integer();
    assert!((3_500_000_000..=3_600_000_000).contains(&retry), "{retry}");
    assert_eq!(hit("2").field("retry_after").integer(), -1);
}

#[test]
fn rules_are_found_by_name_and_namespace() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    assert_eq!(numbers(&client.ask("TG.HIT api alice")), [1, 5, 4, 1, 1]);
    assert_eq!(numbers(&client.ask("TG.HIT login alice NAMESPACE web")), [1, 1, 0, 1, 1]);
    let unknown = client.ask("TG.HIT login alice");
    assert!(unknown.error().starts_with("UNKNOWN limit \"login\""), "{unknown:?}");
    let wrong = client.ask("TG.HIT 10/fortnight alice");
    assert!(wrong.error().starts_with("ERR limit"), "{wrong:?}");
    // A limit given as text has its own counters.
    assert_eq!(numbers(&client.ask("TG.HIT 5/minute alice")), [1, 5, 4, 1, 1]);
}

#[test]
fn a_connection_forgets_the_limits_it_named_when_rules_are_replaced() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for _ in 0..2 {
        assert_eq!(client.ask("TG.ALLOW api alice").integer(), 1);
    }
    here.service.replace(Defaults::default(), &RuleSet::default()).unwrap();
    let gone = client.ask("TG.ALLOW api alice");
    assert!(gone.error().starts_with("UNKNOWN limit \"api\""), "{gone:?}");
}

#[test]
fn exempt_blocked_and_shadowed_keys_have_their_verdict() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let mut verdict = |command: &str| {
        let answer = client.ask(command);
        (
            answer.field("verdict").text(),
            answer.field("allowed").integer(),
            answer.field("limit").integer(),
        )
    };
    assert_eq!(verdict("TG.HIT api mallory"), ("blocked".to_owned(), 0, -1));
    assert_eq!(verdict("TG.HIT api root"), ("exempt".to_owned(), 1, -1));
    assert_eq!(verdict("TG.HIT quiet alice"), ("allowed".to_owned(), 1, 1));
    assert_eq!(verdict("TG.HIT quiet alice"), ("shadowed".to_owned(), 1, 1));
}

#[test]
fn a_rule_of_several_limits_lists_all_of_them() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let answer = client.ask("TG.HIT two alice COST 3");
    assert_eq!(answer.field("allowed").integer(), 0);
    assert_eq!(answer.field("retry_after").integer(), -1);
    let Value::Array(limits) = answer.field("limits") else { panic!("{answer:?}") };
    assert_eq!([&limits[0], &limits[1]].map(|limit| limit.field("allowed").integer()), [0, 1]);
    assert!(client.ask("TG.TAKE two alice").error().contains("one limit"));
}

#[test]
fn all_charges_every_key_or_none() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let answer = client.ask("TG.ALL 2 api alice 2 1/hour alice 1");
    assert_eq!((answer.field("allowed").integer(), answer.field("retry_after").integer()), (1, 0));
    let answer = client.ask("TG.ALL 2 api alice 2 1/hour alice 1");
    assert_eq!(answer.field("allowed").integer(), 0);
    assert!(answer.field("retry_after").integer() > 3_000_000_000, "{answer:?}");
    let Value::Array(items) = answer.field("items") else { panic!("{answer:?}") };
    assert_eq!([&items[0], &items[1]].map(|item| item.field("allowed").integer()), [1, 0]);
    assert_eq!(client.ask("TG.USAGE api alice"), Value::Integer(2));
    let blocked = client.ask("TG.ALL 2 api alice 1 api mallory 1");
    assert_eq!(
        (blocked.field("allowed").integer(), blocked.field("retry_after").integer()),
        (0, -1)
    );
    assert_eq!(client.ask("TG.USAGE api alice"), Value::Integer(2));
    for wrong in [
        "TG.ALL 0 api a 1",
        "TG.ALL 2 api a 1",
        "TG.ALL 1 api a 1 COST 2",
        "TG.ALL 2 api a 1 api a 1",
    ] {
        assert!(client.ask(wrong).error().starts_with("ERR "), "{wrong}");
    }
}

#[test]
fn each_hits_independently_and_in_order() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let Value::Array(answers) =
        client.ask("TG.EACH 4 1/hour a 1 1/hour a 1 2/hour a 3 1/hour b 1 NAMESPACE n")
    else {
        panic!("no array")
    };
    let allowed: Vec<_> = answers.iter().map(|answer| answer.field("allowed").integer()).collect();
    assert_eq!(allowed, [1, 0, 0, 1]);
}

#[test]
fn resp3_answers_are_maps() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    client.ask("HELLO 3");
    let answer = client.ask("TG.HIT 5/hour key");
    assert!(matches!(answer, Value::Map(_)), "{answer:?}");
    assert_eq!(numbers(&answer), [1, 5, 4, 1, 1]);
}

#[test]
fn wrong_options_are_errors() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    for (command, message) in [
        ("TG.HIT 5/hour key COST", "ERR COST ''"),
        ("TG.HIT 5/hour key COST -1", "ERR COST -1: must not be negative"),
        ("TG.HIT 5/hour key PRICE 1", "ERR option 'PRICE'"),
        ("TG.HIT 5/hour key NAMESPACE", "ERR NAMESPACE: is missing"),
        ("TG.HIT 5/hour", "ERR wrong number of arguments for 'tg.hit' command"),
        ("TG.SET 5/hour key", "ERR wrong number of arguments"),
        ("TG.USAGE 5/hour key COST 1", "ERR COST: not with this command"),
        ("TG.NONSENSE a b", "ERR unknown command"),
    ] {
        let answer = client.ask(command);
        assert!(answer.error().starts_with(message), "{command}: {answer:?}");
    }
    assert!(client.ask_of(&[b"TG.HIT", b"\xff", b"key"]).error().contains("UTF-8"));
}

#[test]
fn one_invalid_item_leaves_the_others_their_answers() {
    let here = Here::start();
    let mut client = Client::connect(here.address);
    let Value::Array(each) = client.ask("TG.EACH 4 9/hour a 1 nobody a 1 9/hour a many 9/hour a 2")
    else {
        panic!("no array")
    };
    assert_eq!(each[0].field("used").integer(), 1);
    assert!(each[1].error().starts_with("UNKNOWN "), "{each:?}");
    assert!(each[2].error().starts_with("ERR cost "), "{each:?}");
    assert_eq!(each[3].field("used").integer(), 3);
    // `TG.ALL` is one command, so one error is its whole reply.
    assert!(client.ask("TG.ALL 2 9/hour a 1 nobody a 1").error().starts_with("UNKNOWN "));
    assert!(client.ask("TG.EACH 3 9/hour a 1").error().starts_with("ERR items 3"));
}
