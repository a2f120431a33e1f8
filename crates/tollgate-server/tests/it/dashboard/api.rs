//! The figures of the API.

use tollgate_testservers::eventually;

use super::*;

/// Requests a path of the API without a token, which a server without tokens answers.
fn api(server: &Server, path: &str) -> Value {
    let reply = send(server.admin, &format!("GET /api/v1/{path}"), &[], "");
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn key(server: &Server, body: &Value) -> Reply {
    let json = "content-type: application/json";
    send(server.admin, "POST /api/v1/key", &[json], &body.to_string())
}

fn rule<'a>(rules: &'a Value, name: &str) -> &'a Value {
    let rules = rules["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["name"] == name).unwrap()
}

#[test]
fn the_overview_counts_hits_by_verdict_and_second() {
    let server = Server::told("[limits.api]\nlimit = '3/hour'\nexempt = ['me']\n");
    hit(&server, "api", "a", 5);
    hit(&server, "api", "me", 2);
    let sum = |overview: &Value, name: &str| -> u64 {
        let seconds = overview["history"][name].as_array().unwrap();
        seconds.iter().map(|count| count.as_u64().unwrap()).sum()
    };
    eventually("the seconds are noted", || {
        let overview = api(&server, "overview");
        let history = ["allowed", "denied", "exempt"].map(|name| sum(&overview, name));
        history == [3, 2, 2]
    });
    let overview = api(&server, "overview");
    assert_eq!(overview["totals"]["allowed"], 3);
    assert_eq!((sum(&overview, "blocked"), sum(&overview, "errors")), (0, 0));
    assert_eq!(overview["version"], env!("CARGO_PKG_VERSION"));
    let http = &overview["ports"][0];
    assert_eq!((&http["port"], &http["connections_total"]), (&json!("http"), &json!(7)));
    assert_eq!(overview["store"]["open_breakers"], 0);
    assert_eq!(overview["config"]["in_force"], true);
    assert_eq!(overview["config"]["reloads"]["files"], json!(["tollgate.toml"]));
}

#[test]
fn rules_are_in_words_with_what_they_treat_in_another_way() {
    let server = Server::told(
        "[limits.api]\nlimit = '100/minute burst=20'\nshadow = true\ncost = 2\nexempt = ['me']\n\
         blocked = ['evil']\noverrides = { 'gold:*' = '9/second' }\n",
    );
    hit(&server, "api", "a", 3);
    hit(&server, "7/hour", "a", 1);
    let rules = api(&server, "rules");
    let api = rule(&rules, "api");
    let words = "20 at once, then one every 600 ms: 100 in 1 minute in the long run";
    assert_eq!(api["limits"][0]["admits"], words);
    assert_eq!(
        (&api["shadow"], &api["cost"], &api["allowed"]),
        (&json!(true), &json!(2), &json!(3))
    );
    let overrides = json!([
        {"pattern": "evil", "limit": "blocked"},
        {"pattern": "me", "limit": "exempt"},
        {"pattern": "gold:*", "limit": "9/second name=api"},
    ]);
    assert_eq!(api["overrides"], overrides);
    assert_eq!(api["history"]["span_seconds"], 15);
    let inline = rule(&rules, "");
    assert_eq!((&inline["inline"], &inline["allowed"]), (&json!(true), &json!(1)));
}

#[test]
fn a_key_is_found_as_the_list_names_it() {
    let server = Server::told(
        "[namespaces.billing.limits]\ninvoice = '2/hour; 9/day'\n\
         [[domains.shop.descriptors]]\nkey = 'user'\nlimit = '5/hour'\n",
    );
    for _ in 0..3 {
        let body = json!({ "limit": "invoice", "namespace": "billing", "key": ["eu", "x,y"] });
        send(server.http, "POST /v1/hit", &[], &body.to_string());
    }
    let keys = api(&server, "keys");
    assert_eq!(keys["estimates"], true);
    let busiest = &keys["busiest"][0];
    assert_eq!((&busiest["key"], &busiest["count"]), (&json!("eu, x,y"), &json!(3)));
    assert_eq!((&busiest["id"], &busiest["rule"]), (&json!(["eu", "x,y"]), &json!("invoice")));
    assert_eq!(keys["denied"][0]["count"], 1);

    let body = json!({ "namespace": "billing", "rule": "invoice", "key": busiest["id"] });
    let state = key(&server, &body).json();
    assert_eq!(state["verdict"], "denied");
    let used = |limit: &Value| [limit["used"].clone(), limit["remaining"].clone()];
    assert_eq!(used(&state["limits"][0]), [json!(2), json!(0)]);
    assert_eq!(used(&state["limits"][1]), [json!(2), json!(7)]);
    assert!(state["limits"][0]["retry_after_us"].as_u64().unwrap() > 1_000_000);
    let reason = state["reasons"][0].as_str().unwrap();
    assert!(
        reason.starts_with("2 of 2 are in use (2/hour name=invoice); a hit passes in "),
        "{reason}"
    );

    // A key of a domain is its entries.
    let body = json!({ "domain": "shop", "key": ["user", "eve"] });
    let state = key(&server, &body).json();
    assert_eq!((&state["rule"], &state["limits"][0]["remaining"]), (&json!("user"), &json!(5)));
    for (body, status) in [
        (json!({ "domain": "shop", "key": ["nobody", "eve"] }), 404),
        (json!({ "domain": "shop", "key": "eve" }), 400),
        (json!({ "domain": "nowhere", "key": ["user", "eve"] }), 404),
        (json!({ "rule": "nothing", "key": "eve" }), 404),
        (json!({ "rule": "5/hour" }), 400),
    ] {
        let reply = key(&server, &body);
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(!reply.body.contains("eve"), "{reply:?}");
    }
}

#[test]
fn the_decisions_on_a_key_are_noted_while_somebody_looks() {
    let server = Server::told("[limits]\napi = '2/hour'\n");
    let body = json!({ "rule": "api", "key": "a" });
    hit(&server, "api", "a", 1);
    assert_eq!(key(&server, &body).json()["recent"], json!([]));
    hit(&server, "api", "b", 2);
    hit(&server, "api", "a", 2);
    let recent = key(&server, &body).json()["recent"].clone();
    let verdicts: Vec<_> = recent.as_array().unwrap().iter().map(|seen| &seen["verdict"]).collect();
    assert_eq!(verdicts, [&json!("denied"), &json!("allowed")]);
}

#[test]
fn a_failed_reload_is_shown_with_its_file_line_and_column() {
    let server = Server::told("[limits]\napi = '2/hour'\n");
    server.put("tollgate.toml", "[limits]\n\napi = '2/fortnight'\n");
    server.process.signal("HUP");
    eventually("the reload fails", || api(&server, "overview")["config"]["in_force"] == false);
    let overview = api(&server, "overview");
    let problem = &overview["config"]["reloads"]["problems"][0];
    assert_eq!((&problem["file"], &problem["line"]), (&json!("tollgate.toml"), &json!(3)));
    assert!(problem["message"].as_str().unwrap().contains("fortnight"), "{problem}");
    assert_eq!(api(&server, "rules")["rules"][0]["limit"], "2/hour name=api");
    server.put("tollgate.toml", "[limits]\napi = '3/hour'\n");
    server.process.signal("HUP");
    eventually("it is mended", || api(&server, "overview")["config"]["in_force"] == true);
    assert_eq!(api(&server, "overview")["config"]["reloads"]["problems"], json!([]));
}

#[test]
fn the_store_is_shown_without_its_password_and_its_breaker_opens() {
    let port = tollgate_testservers::free_port();
    let server = Server::told(&format!(
        "[store]\nurl = 'redis://me:hidden@127.0.0.1:{port}/0'\non_failure = 'open'\nbreaker_failures = 1\n\
         [limits]\napi = '2/hour'\n"
    ));
    let store = api(&server, "store");
    assert_eq!(store["health"]["url"], format!("redis://me:***@127.0.0.1:{port}/0"));
    eventually("the breaker opens", || {
        hit(&server, "api", "a", 1);
        api(&server, "overview")["store"]["opened_total"] != 0
    });
    assert!(api(&server, "store")["health"]["calls"]["failed_open"].as_u64().unwrap() > 0);
}

#[test]
fn leases_and_their_sizes_are_shown() {
    let redis = tollgate_testservers::Engine::redis(&[]);
    let url = format!("leased+{}", redis.url());
    let server = Server::told(&format!("[store]\nurl = {url:?}\n[limits]\napi = '1000/second'\n"));
    eventually("an allotment is held", || {
        hit(&server, "api", "a", 20);
        let leases = api(&server, "store")["leases"].clone();
        leases["keys"] == 1 && leases["held_units"].as_u64() > Some(0)
    });
    assert_eq!(api(&server, "store")["error_bound"]["units"], 0);
}

#[test]
fn replicas_are_listed_with_their_names() {
    let nats = tollgate_testservers::Engine::nats(&[]);
    let url = format!("replicated+{}", nats.url());
    let config = format!("[store]\nurl = {url:?}\n[limits]\napi = '1000/hour'\n");
    let servers = [Server::told(&config), Server::told(&config)];
    let name = |server: &Server| api(server, "overview")["node"].clone();
    eventually("they know each other", || {
        let nodes = api(&servers[0], "store")["nodes"].clone();
        nodes.as_array().is_some_and(|nodes| {
            nodes.iter().any(|node| node["name"] == name(&servers[1]) && node["missing"] == false)
        })
    });
}

#[test]
fn the_playground_explains_a_limit() {
    let server = Server::told("");
    let answer = api(&server, "playground?limit=10/second%20burst%3D5;%20100/day");
    assert_eq!(answer["limits"].as_array().unwrap().len(), 2);
    let chart = &answer["limits"][0]["chart"]["algorithms"];
    let own = chart.as_array().unwrap().iter().find(|chart| chart["own"] == true).unwrap();
    assert_eq!((&own["algorithm"], &own["admitted"][0]), (&json!("gcra"), &json!(5)));
    let wrong = send(server.admin, "GET /api/v1/playground?limit=5/fortnight", &[], "");
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let server = Server::told("");
    for (request, status) in [
        ("GET /api/v1/nothing", 404),
        ("GET /api/v2/overview", 404),
        ("POST /api/v1/overview", 405),
        ("GET /api/v1/key", 405),
        ("GET /api/v1/actions/reset", 405),
        ("GET /api/v1/keys?bottom=1", 400),
    ] {
        let reply = send(server.admin, request, &["content-type: application/json"], "");
        assert_eq!(reply.status, status, "{request}: {reply:?}");
    }
}
