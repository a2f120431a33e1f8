//! Answers of the HTTP port.

use std::thread;

use serde_json::json;

use super::Client;
use crate::server::Server;

#[test]
fn a_hit_by_query_and_by_json_is_the_same() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let first = client.post("/v1/hit?limit=2/hour&key=bob", "");
    assert_eq!(first.status, 200);
    assert_eq!(first.header("ratelimit-policy"), Some("\"2/hour\";q=2;w=3600"));
    assert_eq!(first.header("ratelimit"), Some("\"2/hour\";r=1;t=1800"));
    assert_eq!(first.header("cache-control"), Some("no-store"));
    let answer = first.json();
    assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(true), &json!(1)));
    let second = client.post("/v1/hit", r#"{"limit":"2/hour","key":"bob"}"#);
    assert_eq!(second.json()["remaining"], 0);
    let third = client.post("/v1/hit", r#"{"limit":"2/hour","key":"bob","cost":1}"#);
    assert_eq!((third.status, &third.json()["verdict"]), (429, &json!("denied")));
    let retry: u64 = third.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=1800).contains(&retry), "{retry}");
}

#[test]
fn every_operation_has_its_effect() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let mut ask = |operation: &str, cost: u64| {
        client.post(&format!("/v1/{operation}?limit=10/day&key=a&cost={cost}"), "").json()
    };
    assert_eq!(ask("charge", 12)["used"], 12);
    assert_eq!(ask("peek", 1)["allowed"], false);
    assert_eq!(ask("refund", 5)["remaining"], 3);
    assert_eq!(ask("take", 9)["charged"], 3);
    assert_eq!(ask("set", 4)["used"], 4);
    assert_eq!(ask("hit", 6)["remaining"], 0);
    assert_eq!(ask("usage", 1), json!({"used": 10}));
    assert_eq!(ask("reset", 1), json!({"reset": true}));
    assert_eq!(ask("reset", 1), json!({"reset": false}));
    assert_eq!(ask("hit", 11)["retry_after"], json!(null));
    assert_eq!(client.get("/v1/usage?limit=10/day&key=a").json()["used"], 0);
    client.post("/v1/hit?limit=3/minute;+5/day&key=a", "");
    assert_eq!(
        client.get("/v1/usage?limit=3/minute;+5/day&key=a").json(),
        json!({"used": 1, "limits": [{"limit": 3, "used": 1}, {"limit": 5, "used": 1}]})
    );
}

#[test]
fn a_number_in_json_is_a_key_of_its_digits() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let mut left = |key: &str| {
        let body = format!(r#"{{"limit":"9/day","key":{key}}}"#);
        client.post("/v1/hit", &body).json()["remaining"].as_u64().unwrap()
    };
    assert_eq!([left("42"), left("\"42\""), left("-7"), left("\"-7\"")], [8, 7, 8, 7]);
    assert_eq!([left("[1, \"a\"]"), left("[\"1\", \"a\"]")], [8, 7]);
}

#[test]
fn a_check_without_a_key_says_why() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let path = "/v1/check?limit=9/day&key_header=x-api-key";
    let reply = client.get(&format!("{path}&deny_status=403"));
    let reason = "no key: header x-api-key is missing or empty";
    assert_eq!((reply.status, reply.header("x-tollgate-reason")), (403, Some(reason)));
    assert!(reply.json()["detail"].as_str().unwrap().starts_with(reason), "{reply:?}");
    // A proxy takes the key from a parameter of its client: an empty one, and bytes that are not
    // text.
    assert_eq!(client.get("/v1/check?limit=9/day&key=").status, 429);
    assert_eq!(client.get("/v1/check?limit=9/day&key=%ff%zz").status, 200);
    assert_eq!(client.get(&format!("{path}&on_missing=share")).status, 200);
}

#[test]
fn a_body_arrives_within_the_request_timeout() {
    let server = Server::told("[connections]\nrequest_timeout = \"200ms\"\n");
    let mut client = Client::new(server.http);
    client
        .send(b"POST /v1/hit HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        .unwrap();
    let reply = client.read().unwrap();
    assert_eq!(reply.status, 408);
    assert!(reply.json()["detail"].as_str().unwrap().contains("200ms"), "{reply:?}");
}

#[test]
fn an_answer_lists_all_limits_of_a_policy() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let question = r#"{"limit":"2/minute; 10/hour","key":["tenant","bob"],"cost":2}"#;
    let answer = client.post("/v1/hit", question).json();
    assert_eq!(answer["limits"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&answer["limits"][0]["remaining"], &answer["limits"][1]["remaining"]),
        (&json!(0), &json!(8))
    );
    // The parts of a key are never joined.
    let other = question.replace(r#"["tenant","bob"]"#, r#""tenantbob""#);
    assert_eq!(client.post("/v1/hit", &other).status, 200);
    assert_eq!(client.post("/v1/hit", question).status, 429);
}

#[test]
fn several_hits_are_all_charged_or_none() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let both = r#"{"items":[{"limit":"5/day","key":"a"},{"limit":"1/day","key":"b"}]}"#;
    assert_eq!(client.post("/v1/all", both).status, 200);
    let refused = client.post("/v1/all", both);
    assert_eq!((refused.status, &refused.json()["allowed"]), (429, &json!(false)));
    assert_eq!(client.get("/v1/usage?limit=5/day&key=a").json()["used"], 1);
    let twice = r#"{"items":[{"limit":"5/day","key":"a"},{"limit":"5/day","key":"a"}]}"#;
    assert_eq!(client.post("/v1/all", twice).status, 400);
}

#[test]
fn a_batch_answers_each_in_its_place() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    let items = r#"{"items":[{"limit":"1/day","key":"a"},{"limit":"1/day","key":"a"},{"limit":"nobody","key":"a"},
        {"limit":"1/day","key":"a","operation":"usage"}]}"#;
    let answers = client.post("/v1/batch", items).json();
    let answers = answers["answers"].as_array().unwrap();
    assert_eq!(answers[0]["allowed"], true);
    assert_eq!(answers[1]["allowed"], false);
    assert_eq!(answers[2]["status"], 404);
    assert_eq!(answers[3]["used"], 1);
}

#[test]
fn rules_are_asked_by_name() {
    let server = Server::told(
        "[limits.api]\nlimit = \"1/day\"\nexempt = [\"admin\"]\nblocked = [\"evil*\"]\n\
         [limits.trial]\nlimit = \"1/day\"\nshadow = true\n\
         [namespaces.shop.limits.api]\nlimit = \"3/day\"\n",
    );
    let mut client = Client::new(server.http);
    let mut verdict = |query: &str| {
        let reply = client.post(&format!("/v1/hit?{query}"), "");
        (reply.status, reply.json()["verdict"].as_str().unwrap_or("").to_owned())
    };
    assert_eq!(verdict("limit=api&key=bob"), (200, "allowed".into()));
    assert_eq!(verdict("limit=api&key=bob"), (429, "denied".into()));
    assert_eq!(verdict("limit=api&key=admin"), (200, "exempt".into()));
    assert_eq!(verdict("limit=api&key=evil%20bob"), (429, "blocked".into()));
    assert_eq!(verdict("limit=trial&key=bob"), (200, "allowed".into()));
    assert_eq!(verdict("limit=trial&key=bob"), (200, "shadowed".into()));
    assert_eq!(verdict("limit=api&namespace=shop&key=bob"), (200, "allowed".into()));
}

#[test]
fn errors_name_the_value_and_the_rule() {
    let server = Server::start(&[]);
    let mut client = Client::new(server.http);
    for (method, path, body, status, says) in [
        ("POST", "/v1/hit?key=a", "", 400, "limit: missing"),
        ("POST", "/v1/hit?limit=1/day", "", 400, "key: missing"),
        ("POST", "/v1/hit?limit=1/day&key=a&cost=-1", "", 400, "cost \"-1\""),
        ("POST", "/v1/hit?limit=1/day&key=a&colour=red", "", 400, "\"colour\": unknown"),
        ("POST", "/v1/hit?limit=%zz&key=a", "", 400, "two hexadecimal digits"),
        ("POST", "/v1/hit?limit=1/fortnight&key=a", "", 400, "\"fortnight\""),
        ("POST", "/v1/hit?limit=1/day&limit=9/day&key=a", "", 400, "limit: given more than once"),
        ("POST", "/v1/hit?limit=1/day&key=", "", 400, "key: empty"),
        ("GET", "/v1/check?limit=1/day&key=a&limit=9/day", "", 400, "limit: given more than once"),
        (
            "POST",
            "/v1/hit",
            r#"{"limit":"1/day","key":{}}"#,
            400,
            "expected a text or a whole number",
        ),
        (
            "POST",
            "/v1/all",
            r#"{"items":[{"limit":"1/day","key":"a"},{"limit":"1/day","key":"a"}]}"#,
            400,
            "an all-or-nothing hit may contain it only once",
        ),
        ("POST", "/v1/hit?limit=nobody&key=a", "", 404, "limit \"nobody\""),
        ("POST", "/v1/hit", "{", 400, "body: EOF"),
        ("POST", "/v1/hit", r#"{"limit":"1/day","key":"a","x":1}"#, 400, "unknown field `x`"),
        ("POST", "/v1/set?limit=1/day&key=a", "", 400, "cost: missing"),
        ("POST", "/v1/all", r#"{"items":[]}"#, 400, "items: empty"),
        ("GET", "/v1/hit?limit=1/day&key=a", "", 405, "expected POST"),
        ("GET", "/nowhere", "", 404, "path \"/nowhere\": unknown"),
        ("GET", "/v1/check?limit=1/day&key=a&deny_status=200", "", 400, "from 400 to 599"),
    ] {
        let reply = client.ask(method, path, body);
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        assert!(reply.json()["detail"].as_str().unwrap().contains(says), "{path}: {reply:?}");
    }
}

#[test]
fn a_store_that_does_not_answer_is_an_error_and_no_decision() {
    let server = Server::start(&["--store", "redis://127.0.0.1:1/"]);
    let mut client = Client::new(server.http);
    let refused = client.post("/v1/hit?limit=1/day&key=a", "");
    assert_eq!(refused.status, 503);
    let ready = Client::new(server.admin).get("/ready");
    // Only the log shows the address of the store.
    assert!(!refused.body.contains("127.0.0.1") && !ready.body.contains("127.0.0.1"), "{ready:?}");
    server.logged("127.0.0.1:1");
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &json!(false)));
}

#[test]
fn concurrent_connections_admit_exactly_the_limit() {
    let server = Server::start(&[]);
    let admitted: usize = thread::scope(|scope| {
        let ask = || {
            let mut client = Client::new(server.http);
            let hit = |_: &usize| client.post("/v1/hit?limit=100/day&key=all", "").status == 200;
            (0..50).filter(hit).count()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 100);
}

#[test]
fn the_admin_port_shows_what_happened() {
    let server = Server::told("[limits.api]\nlimit = \"1/day\"\n");
    let mut client = Client::new(server.http);
    for key in ["a", "a", "a", "b"] {
        client.post(&format!("/v1/hit?limit=api&key={key}"), "");
    }
    let mut admin = Client::new(server.admin);
    let metrics = admin.get("/metrics").body;
    for line in [
        "tollgate_hits_total{namespace=\"\",rule=\"api\",verdict=\"allowed\"} 2",
        "tollgate_hits_total{namespace=\"\",rule=\"api\",verdict=\"denied\"} 2",
        "tollgate_request_seconds_count{port=\"http\"} 4",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line}\n{metrics}");
    }
    // Keys never appear as labels.
    assert!(!metrics.contains("\"a\""), "{metrics}");
    let keys = admin.get("/keys?top=1").json();
    assert_eq!(
        (&keys["busiest"][0]["key"], &keys["busiest"][0]["count"]),
        (&json!("a"), &json!(3))
    );
    let metrics = admin.get("/metrics").body;
    assert!(!metrics.contains("tollgate_request_seconds_count{port=\"admin\"} 0"), "{metrics}");
    assert_eq!((&keys["denied"][0]["key"], &keys["denied"][0]["count"]), (&json!("a"), &json!(2)));
    assert_eq!(admin.get("/rules").json()["rules"][0]["denied"], 2);
    assert_eq!((admin.get("/health").status, admin.get("/ready").status), (200, 200));
    assert_eq!(client.get("/openapi.json").json()["info"]["title"], "tollgate");
}
