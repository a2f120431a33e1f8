//! Bans through the real binary: the answers to clients, the list, and the end of one by an
//! operator.

use super::*;

const BANNING: &str = "[limits]\nlogin = '2/day; ban after=3/hour for=1h'\n\
     [limits.trial]\nlimit = ['1/day', { after = 1, period = 'hour', for = '1h', max = '2h' }]\nshadow = true\n\
     [[domains.shop.descriptors]]\nkey = 'user'\nlimit = '1/day; ban after=1/hour for=2h'\n";

fn server() -> Server {
    Server::with(&(BANNING.to_owned() + &tokens()), &["--log-level", "trace"], |_| {})
}

fn hit_once(server: &Server, rule: &str, key: &str) -> Reply {
    let body = json!({ "limit": rule, "key": key }).to_string();
    send(server.http, "POST /v1/hit", &[], &body)
}

fn verdicts(server: &Server, rule: &str, hits: usize) -> Vec<Value> {
    let verdict = |_| hit_once(server, rule, "secret-customer").json()["verdict"].clone();
    (0..hits).map(verdict).collect()
}

fn admin(server: &Server, request: &str, token: &str) -> Reply {
    send(server.admin, request, &[&format!("authorization: Bearer {token}")], "")
}

fn bans(server: &Server) -> Value {
    admin(server, "GET /bans", READ).json()["bans"].clone()
}

#[test]
fn a_banned_client_gets_the_exact_wait() {
    let server = server();
    let verdicts = verdicts(&server, "login", 6);
    assert_eq!(verdicts, ["allowed", "allowed", "denied", "denied", "banned", "banned"]);
    let banned = hit_once(&server, "login", "secret-customer");
    assert_eq!(banned.status, 429);
    let wait: u64 = banned.header("retry-after").unwrap().parse().unwrap();
    assert!((3590..=3600).contains(&wait), "{banned:?}");
    // The fields name the quota, which a client may pace itself by, and not the count of denials.
    assert_eq!(banned.header("ratelimit-policy"), Some("\"login\";q=2;w=86400"));
    assert_eq!(banned.header("ratelimit"), Some(&*format!("\"login\";r=0;t={wait}")));
    let told = banned.json();
    assert_eq!((&told["allowed"], &told["limits"][1]["ban"]), (&json!(false), &json!(true)));
    assert!(told["retry_after"].as_f64().unwrap() <= 3600.0, "{told}");
    let usage = json!({ "limit": "login", "key": "secret-customer" }).to_string();
    let usage = send(server.http, "POST /v1/usage", &[], &usage).json();
    assert_eq!(usage["used"], 2, "units, not denials");
    assert_eq!(hit_once(&server, "login", "other").json()["verdict"], "allowed");
}

#[test]
fn a_ban_in_a_shadow_rule_is_only_reported() {
    let server = server();
    let verdicts = verdicts(&server, "trial", 3);
    assert_eq!(verdicts, ["allowed", "shadowed", "shadowed"]);
    assert_eq!(bans(&server)[0]["rule"], "trial");
}

#[test]
fn bans_are_listed_and_an_operator_lifts_them() {
    let server = server();
    assert_eq!(bans(&server), json!([]));
    hit(&server, "login", "secret customer/7", 6);
    let listed = bans(&server);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let ban = &listed[0];
    assert_eq!((&ban["rule"], &ban["id"]), (&json!("login"), &json!("secret customer/7")));
    let left = ban["ends_in_us"].as_u64().unwrap();
    assert!((3_500_000_000..=3_600_000_000).contains(&left), "{ban}");
    assert_eq!(get(&server, "bans", READ).json()["total"], 1);
    let key = json!({ "rule": "login", "key": "secret customer/7" });
    let state = post(&server, "key", READ, &key).json();
    assert_eq!((&state["verdict"], &state["limits"][1]["ban"]), (&json!("banned"), &json!(true)));
    assert!(state["reasons"][0].as_str().unwrap().starts_with("the key is banned"), "{state}");

    let path = "DELETE /bans/login/secret%20customer%2F7";
    for (request, token, status) in [
        ("GET /bans", "guess", 401),
        (path, "guess", 401),
        (path, READ, 403),
        ("DELETE /bans", OPERATE, 405),
        ("GET /bans/login/key", READ, 405),
        ("DELETE /bans/login", OPERATE, 400),
        ("DELETE /bans/login/%zz", OPERATE, 400),
        ("DELETE /bans/unknown/key", OPERATE, 404),
        ("DELETE /bans/login/key?spaces=x", OPERATE, 400),
        ("GET /bans?top=0", READ, 400),
    ] {
        let reply = admin(&server, request, token);
        assert_eq!(reply.status, status, "{request}: {reply:?}");
    }
    assert_eq!(hit_once(&server, "login", "secret customer/7").json()["verdict"], "banned");

    assert_eq!(admin(&server, path, OPERATE).json(), json!({ "lifted": true }));
    assert_eq!(admin(&server, path, OPERATE).json(), json!({ "lifted": false }));
    assert_eq!(bans(&server), json!([]));
    assert_eq!(hit_once(&server, "login", "secret customer/7").json()["verdict"], "allowed");

    let metrics = admin(&server, "GET /metrics", READ).body;
    let banned = metrics.lines().find(|line| line.contains("login") && line.contains("\"banned\""));
    assert!(banned.is_some_and(|line| line.ends_with(" 3")), "{banned:?}");
    let log = server.log();
    assert!(log.contains("an operator lifted the ban of a key"));
    assert!(!log.contains("secret") && !metrics.contains("secret"));
}
