//! Refunds by receipts through the real program: over HTTP, over RESP and by the command line, on
//! Memory and on Redis.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tollgate::shared::Place;
use tollgate::{Limit, Receipt, Source, WireReceipt};
use tollgate_testservers::{Engine, eventually};

use crate::http::Client;
use crate::resp;
use crate::server::Server;

/// The text with R for every receipt, because a receipt depends on the time.
pub(crate) fn without_receipts(text: &str) -> String {
    let is_receipt = |part: &str| part.parse::<WireReceipt>().is_ok();
    let parts = text.split('"').map(|part| if is_receipt(part) { "R" } else { part });
    parts.collect::<Vec<_>>().join("\"")
}

const WINDOW: &str = "1000/day fixed-window name=window";

/// Calls `test` with a server on Memory and with one on Redis.
fn on_each_store(test: impl Fn(&Server)) {
    test(&Server::start(&[]));
    let redis = Engine::redis(&[]);
    // No call is lost on a slow machine.
    let url = format!("redis://127.0.0.1:{}", redis.port());
    test(&Server::told(&format!("[store]\nurl = '{url}'\ndeadline = '10s'\n")));
}

fn post(server: &Server, verb: &str, body: &Json) -> (u16, Json) {
    let reply = Client::new(server.http).post(&format!("/v1/{verb}"), &body.to_string());
    (reply.status, reply.json())
}

/// Asks about the key `a`, with more fields.
fn ask(server: &Server, verb: &str, limit: &str, more: &Json) -> (u16, Json) {
    let mut body = json!({"limit": limit, "key": "a"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    post(server, verb, &body)
}

fn used(server: &Server, limit: &str) -> Json {
    ask(server, "usage", limit, &json!({})).1["used"].clone()
}

/// Returns a receipt with changes, and with the checksum that the program would have written.
fn changed(text: &Json, limit: &str, change: impl Fn(Receipt) -> Receipt) -> String {
    // The namespace of limits that come with requests.
    let place = Place::new("~", &limit.parse::<Limit>().unwrap());
    let receipt = text.as_str().unwrap().parse::<WireReceipt>().unwrap();
    let receipt = receipt.check(&place, "a").unwrap();
    WireReceipt::new(change(receipt), &place, "a").to_string()
}

/// 900 at 59.9 s and 900 at 60.1 s: with the receipt of the first hit a refund finds that its
/// window is over. As a correction it would admit 850 more in the second window.
#[test]
fn a_refund_does_not_admit_more_in_the_next_window() {
    on_each_store(|server| {
        let hit = ask(server, "hit", WINDOW, &json!({"cost": 900}));
        assert_eq!(hit.0, 200, "{hit:?}");
        // The receipt that the same hit would have had in the window before.
        let day = Duration::from_secs(86_400);
        let before = changed(&hit.1["receipt"], WINDOW, |receipt| Receipt {
            mark: receipt.mark - 1,
            at: tollgate::Timestamp::EPOCH + (receipt.at.since(tollgate::Timestamp::EPOCH) - day),
            ..receipt
        });
        let refund = json!({"receipt": before, "units": 800});
        let (status, answer) = ask(server, "refund", WINDOW, &refund);
        assert_eq!((status, &answer["used"]), (200, &json!(900)), "{answer}");
        assert_eq!(ask(server, "hit", WINDOW, &json!({"cost": 850})).0, 429);
        let own = json!({"receipt": hit.1["receipt"], "units": 800});
        assert_eq!(ask(server, "refund", WINDOW, &own).1["used"], 100);
    });
}

/// The same with real time and short windows: whenever the second window has begun, the receipt of
/// the first gives nothing back.
#[test]
fn a_receipt_expires_with_its_window() {
    on_each_store(|server| {
        let limit = "5 per 200 milliseconds fixed-window-per-key name=short";
        let first = ask(server, "hit", limit, &json!({"cost": 5})).1;
        eventually("the window ends", || used(server, limit) == 0);
        let refund = json!({"receipt": first["receipt"]});
        let charge = ask(server, "charge", limit, &json!({"cost": 5})).1;
        let after = ask(server, "refund", limit, &refund).1;
        // On a slow machine the second window may have ended too.
        let fresh = after["reset_after"] == 0;
        assert!(fresh || after["used"] == 5, "{charge} {after}");
    });
}

#[test]
fn every_charging_answer_has_a_receipt_and_no_other() {
    let server = Server::start(&[]);
    for verb in ["hit", "take", "charge"] {
        let (_, answer) = ask(&server, verb, "3/day", &json!({"cost": 1}));
        let receipt = answer["receipt"].as_str().unwrap();
        assert_eq!(receipt.len(), WireReceipt::LENGTH, "{answer}");
    }
    for (verb, cost) in [("hit", 1), ("take", 1), ("peek", 1), ("refund", 1), ("set", 2)] {
        let (_, answer) = ask(&server, verb, "3/day", &json!({"cost": cost}));
        assert!(answer.get("receipt").is_none(), "{verb}: {answer}");
    }
    let policy = "5/day; 9/week fixed-window";
    let (_, hit) = ask(&server, "hit", policy, &json!({"cost": 2}));
    assert_eq!(hit["receipt"].as_array().unwrap().len(), 2, "{hit}");
    let (_, refund) = ask(&server, "refund", policy, &json!({"receipt": hit["receipt"]}));
    assert_eq!((&refund["used"], &refund["limits"][1]["used"]), (&json!(0), &json!(0)));

    let items = json!([{"limit": "3/week", "key": "a"}, {"limit": "4/week", "key": "b"}]);
    for path in ["all", "batch"] {
        let answers = post(&server, path, &json!({"items": items})).1["answers"].clone();
        assert!(answers[0]["receipt"].is_string() && answers[1]["receipt"].is_string());
    }
    let denied = ask(&server, "hit", "3/day", &json!({"cost": 4})).1;
    assert!(denied.get("receipt").is_none(), "{denied}");
    let charged = ask(&server, "hit", "1/day fixed-window charge-denied", &json!({"cost": 4}));
    assert_eq!((charged.0, charged.1["receipt"].is_string()), (429, true));
}

#[test]
fn a_receipt_is_refused_where_it_does_not_belong() {
    on_each_store(|server| {
        let limit = "9/day name=own";
        let own = ask(server, "hit", limit, &json!({"cost": 3})).1["receipt"].clone();
        let other = ask(server, "hit", "9/week name=own", &json!({"cost": 3})).1["receipt"].clone();
        let modified = own.as_str().unwrap().replacen('A', "B", 2);
        let text = own.as_str().unwrap();
        let last = if text.ends_with('A') { 'B' } else { 'A' };
        let checksum = format!("{}{last}", &text[..55]);
        let unknown = own.as_str().unwrap().replacen("AQ", "Ag", 1);
        for (fields, why) in [
            (json!({"receipt": other}), "it is for another limit, key or namespace"),
            (json!({"receipt": [own, other]}), "it is for another limit, key or namespace"),
            (
                json!({"receipt": own, "namespace": "x"}),
                "it is for another limit, key or namespace",
            ),
            (json!({"receipt": own, "key": "b"}), "it is for another limit, key or namespace"),
            (json!({"receipt": modified}), "receipt \""),
            (json!({"receipt": checksum}), "or its text was changed"),
            (json!({"receipt": unknown}), "version 2; the only known version is 1"),
            (json!({"receipt": "AQ"}), "2 characters; a receipt has 56"),
            (json!({"receipt": []}), "0 receipts: a refund needs at least 1"),
            (json!({"receipt": own, "units": 4}), "units 4; it charged only 3"),
            (json!({"receipt": own, "cost": 1}), "cost 1: not with a receipt"),
            (json!({"units": 1}), "units 1: only with a receipt"),
            (json!({"receipt": 7}), "expected a text or a list of texts"),
            (json!({"receipt": null}), "expected a text or a list of texts"),
        ] {
            let (status, problem) = ask(server, "refund", limit, &fields);
            let detail = problem["detail"].as_str().unwrap_or_default();
            assert!(status == 400 && detail.contains(why), "{fields}: {status} {problem}");
        }
        let elsewhere = ask(server, "hit", limit, &json!({"receipt": own}));
        assert_eq!(elsewhere.1["detail"], "receipt: only refund takes it");
        assert_eq!(used(server, limit), 3, "nothing was refunded");
    });
}

#[test]
fn a_receipt_of_a_fallback_of_another_process_is_ignored_and_named() {
    let server = Server::start(&[]);
    let hit = ask(&server, "hit", "9/day", &json!({"cost": 3})).1;
    for source in [Source::Fallback, Source::Lease, Source::Replica] {
        // This test is another process than the server.
        let foreign = changed(&hit["receipt"], "9/day", |receipt| Receipt { source, ..receipt });
        let refund = ask(&server, "refund", "9/day", &json!({"receipt": foreign}));
        assert_eq!((refund.0, &refund.1["ignored"]), (200, &json!([foreign])), "{source:?}");
        assert_eq!(refund.1["used"], 3);
    }
}

#[test]
fn a_receipt_used_twice_or_after_a_reset_refunds_once_more() {
    on_each_store(|server| {
        let limit = "9/day fixed-window";
        let hit = ask(server, "hit", limit, &json!({"cost": 3})).1;
        ask(server, "hit", limit, &json!({"cost": 4}));
        let refund = || ask(server, "refund", limit, &json!({"receipt": hit["receipt"]})).1;
        assert_eq!([&refund()["used"], &refund()["used"], &refund()["used"]], [4, 1, 0]);
        assert_eq!(refund()["remaining"], 9);
        ask(server, "hit", limit, &json!({"cost": 4}));
        assert_eq!(ask(server, "reset", limit, &json!({})).1["reset"], true);
        assert_eq!(refund()["used"], 0);
        ask(server, "hit", limit, &json!({"cost": 4}));
        assert_eq!(refund()["used"], 1);
        // The receipts of two hits in one refund.
        let list: Vec<Json> = (0..2)
            .map(|_| ask(server, "hit", limit, &json!({"cost": 2})).1["receipt"].clone())
            .collect();
        assert_eq!(
            ask(server, "refund", limit, &json!({"receipt": list, "units": 1})).1["used"],
            3
        );
    });
}

/// A rule keeps its counters when its quota changes, and gets new ones with another algorithm.
#[test]
fn receipts_of_a_rule_stay_valid_while_it_keeps_its_counters() {
    let server = Server::told("[limits]\napi = '9/day fixed-window'\n");
    let receipt = ask(&server, "hit", "api", &json!({"cost": 3})).1["receipt"].clone();
    let refund = json!({"receipt": receipt, "units": 1});
    let tell = |limit: &str, shown: u64| {
        server.put("tollgate.toml", &format!("[limits]\napi = '{limit}'\n"));
        eventually("the new rule", || {
            let answer = ask(&server, "peek", "api", &json!({})).1;
            answer["limit"] == shown
        });
    };
    tell("90/day fixed-window", 90);
    assert_eq!(ask(&server, "refund", "api", &refund).1["used"], 2);
    tell("91/day", 91);
    let refused = ask(&server, "refund", "api", &refund);
    assert_eq!(refused.0, 400, "{refused:?}");
    server.put("tollgate.toml", "[limits]\nother = '1/day'\n");
    eventually("the rule is gone", || ask(&server, "refund", "api", &refund).0 == 404);
}

#[test]
fn resp_gives_receipts_on_request_and_takes_them_back() {
    on_each_store(|server| {
        let mut client = resp::Client::connect(server.resp);
        for command in ["TG.HIT", "TG.TAKE", "TG.CHARGE"] {
            let answer = client.ask(&format!("{command} 9/day key COST 2 RECEIPT NAMESPACE x"));
            let resp::Value::Array(receipts) = answer.field("receipt") else {
                panic!("{answer:?}")
            };
            let [receipt] = &receipts[..] else { panic!("{answer:?}") };
            let receipt = receipt.text();
            let refund = format!("TG.REFUND 9/day key RECEIPT {receipt} UNITS 1 NAMESPACE x");
            assert_eq!(client.ask(&refund).field("used").integer(), 1, "{command}");
            let both = format!("{refund} RECEIPT {receipt}");
            let after = client.ask(&both);
            assert_eq!(after.field("used").integer(), 0, "{command}");
            assert_eq!(after.field("ignored"), &resp::Value::Array(Vec::new()));
            let wrong = client.ask(&refund.replace("key", "other"));
            assert!(wrong.error().contains("another limit, key or namespace"), "{wrong:?}");
        }
        let plain = client.ask("TG.HIT 9/day key");
        let resp::Value::Array(fields) = &plain else { panic!("{plain:?}") };
        assert!(!fields.contains(&resp::Value::bulk("receipt")), "{plain:?}");
        let denied = client.ask("TG.HIT 9/day key COST 9 RECEIPT");
        assert_eq!(denied.field("receipt"), &resp::Value::Array(Vec::new()));
        let all = client.ask("TG.ALL 2 9/week a 1 8/week b 2 RECEIPT");
        let resp::Value::Array(items) = all.field("items") else { panic!("{all:?}") };
        let resp::Value::Array(second) = items[1].field("receipt") else { panic!("{all:?}") };
        let refund = format!("TG.REFUND 8/week b RECEIPT {}", second[0].text());
        assert_eq!(client.ask(&refund).field("used").integer(), 0);
        for (command, why) in [
            (
                "TG.REFUND 9/day key RECEIPT AQ",
                "ERR receipt \"AQ\": 2 characters; a receipt has 56",
            ),
            (
                "TG.REFUND 9/day key UNITS 1",
                "ERR UNITS: only with RECEIPT; a correction takes COST",
            ),
            (
                "TG.REFUND 9/day key COST 1 RECEIPT AQ",
                "ERR COST: not with RECEIPT, which takes UNITS",
            ),
            ("TG.PEEK 9/day key RECEIPT", "ERR RECEIPT: not with this command"),
        ] {
            assert_eq!(client.ask(command).error(), why, "{command}");
        }
    });
}

#[test]
fn the_command_line_prints_receipts_and_refunds_by_them() {
    let server = Server::start(&[]);
    let redis = Engine::redis(&[]);
    let (url, store) =
        (format!("http://{}", server.http), format!("redis://127.0.0.1:{}", redis.port()));
    for (flag, address) in [("--server", &url), ("--store", &store)] {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
            let command = command.args(arguments).args([flag, address]);
            let output = command.output().unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        let (code, out, _) = run(&["hit", "9/day", "bob", "--cost", "3", "--receipt"]);
        let receipt = out.trim_end().rsplit_once("\nreceipt ").unwrap().1.to_owned();
        assert_eq!((code, receipt.len()), (Some(0), WireReceipt::LENGTH), "{out}");
        let refund = ["refund", "9/day", "bob", "--receipt", &receipt];
        let (code, out, _) = run(&[&refund[..], &["--units", "1"]].concat());
        assert!(code == Some(0) && out.starts_with("allowed: 7 of 9 left"), "{out}");
        let (_, out, _) = run(&["charge", "9/day", "bob", "--json"]);
        let json: Json = serde_json::from_str(&out).unwrap();
        assert!(json["receipt"].is_string(), "{out}");
        let (code, _, error) = run(&["refund", "9/day", "eve", "--receipt", &receipt]);
        assert!(code == Some(2) && error.contains("another limit, key or namespace"), "{error}");
        let (code, _, error) = run(&["refund", "9/day", "bob", "--units", "1"]);
        assert!(code == Some(2) && error.contains("--receipt"), "{error}");
    }
}
