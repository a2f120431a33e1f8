//! Files and the results or problems that they give.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::shared::{OnFailure, Share};

use tollgate_http::{Headers, Reset};

use super::*;
use crate::grpc;
use crate::rules::{Pattern, Rate, Treatment, Unit};

fn problems(text: &str, name: &str) -> Vec<String> {
    let Problems(problems) = read(text, name).expect_err(text);
    problems.iter().map(ToString::to_string).collect()
}

/// Compares the problems of each text with the expected ones, and shows all differences together.
fn all_said(files: &[(&str, &[&str])], name: &str) {
    let said = files.iter().map(|(text, _)| problems(text, name)).collect::<Vec<_>>();
    let different = said.iter().zip(files).filter(|(said, (_, expected))| said != expected);
    let different: Vec<_> = different
        .map(|(said, (text, expected))| {
            format!("{text}\n  said {said:#?}\n  expected {expected:#?}")
        })
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

fn limited(treatment: &Treatment) -> String {
    match treatment {
        Treatment::Limited(policy) => policy.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn one_file_may_contain_all_settings_and_rules() {
    let text = r#"
        [server]
        http = "0.0.0.0:80"
        grpc = "off"
        resp = 7000

        [store]
        url = "redis://127.0.0.1/"
        prefix = "shop"
        deadline = "20ms"
        on_failure = "local 1/4"
        remember_denials = 10_000
        denials_for = "5s"
        max_keys = 1000
        max_limits = 50

        [log]
        level = "debug"
        format = "json"

        [connections]
        grace = "3s"

        [limits]
        plain = "100/minute burst=20; 1000/day"
        table = { limit = { quota = 5, period = "2 hours", algorithm = "token-bucket", burst = 9 } }
        list = { limit = ["5/second", { quota = 10, period = "1 minute" }] }

        [limits.login]
        limit = "5/minute"
        shadow = true
        cost = 2
        costs = { "export:*" = 10 }
        exempt = ["admin", "bot:*"]
        blocked = ["mallory"]
        on_failure = "open"
        deadline = "5ms"

        [limits.login.overrides]
        "gold:*" = "50/minute"
        "free" = "blocked"

        [namespaces.billing.limits]
        invoice = "1/second"

        [[domains.shop.descriptors]]
        key = "plan"
        value = "free"
        [[domains.shop.descriptors.descriptors]]
        key = "user"
        limit = "3/minute sliding-window"
    "#;
    let Config { settings, rules, warnings, .. } = read(text, "t.toml").unwrap();
    assert_eq!(warnings, []);
    assert_eq!(settings.http.unwrap().to_string(), "0.0.0.0:80");
    assert_eq!((settings.grpc, settings.resp.unwrap().port()), (None, 7000));
    assert_eq!(settings.admin, Settings::default().admin);
    assert_eq!(settings.store.prefix.as_deref(), Some("shop"));
    assert_eq!(settings.store.deadline, Some(Duration::from_millis(20)));
    assert_eq!(settings.store.on_failure, OnFailure::Local(Share::one_of(4).unwrap()));
    assert_eq!(settings.store.remember_denials, Some(10_000));
    assert_eq!((settings.store.max_keys, settings.store.max_limits), (Some(1000), Some(50)));
    assert_eq!(settings.log.level.to_string(), "debug");
    assert_eq!(settings.connections.grace, Duration::from_secs(3));

    let rule = |name: &str| &rules.limits[&(String::new(), name.to_owned())];
    assert_eq!(limited(&rule("plain").treatment), "100/minute burst=20; 1000/day");
    assert_eq!(limited(&rule("table").treatment), "5 per 2 hours token-bucket burst=9");
    assert_eq!(limited(&rule("list").treatment), "5/second; 10/minute");
    let login = rule("login");
    assert!(login.shadow);
    assert_eq!((login.cost, login.costs.find(b"export:1")), (2, Some(&10)));
    let special = |key: &str| login.keys.find(key.as_bytes()).map(limited);
    assert_eq!(special("admin").as_deref(), Some("Exempt"));
    assert_eq!(special("bot:7").as_deref(), Some("Exempt"));
    assert_eq!(special("mallory").as_deref(), Some("Blocked"));
    assert_eq!(special("free").as_deref(), Some("Blocked"));
    assert_eq!(special("gold:1").as_deref(), Some("50/minute"));
    assert_eq!(special("anybody"), None);
    assert_eq!(login.on_failure, Some(OnFailure::Open));
    assert_eq!(login.deadline, Some(Duration::from_millis(5)));
    assert!(rules.limits.contains_key(&("billing".to_owned(), "invoice".to_owned())));
    let user = rules.domains["shop"][0].descriptors[0].rule.as_ref().unwrap();
    assert_eq!(
        (&user.name[..], limited(&user.treatment)),
        ("plan=free/user", "3/minute sliding-window".to_owned())
    );
}

#[test]
fn the_envoy_section_has_all_options_of_the_port() {
    let envoy = |text: &str| read(&format!("[envoy]\n{text}"), "t.toml").unwrap().settings.envoy;
    let options = envoy(
        "headers = ['ratelimit-limit', 'X-RateLimit', 'retry-after']
        problem = true
        metadata = true
        max_message = 1000
        max_descriptors = 5
        max_streams = 7
        max_header = 2_000
        patience = '3s'
        keepalive = '4s'
        max_age = '1h'",
    );
    let headers = Headers::none().three_fields().x_rate_limit(Reset::Delta).retry_after(true);
    let all = grpc::Options {
        headers,
        problem: true,
        metadata: true,
        max_message: 1_000,
        max_descriptors: 5,
        max_streams: 7,
        max_header: 2_000,
        patience: Duration::from_secs(3),
        keepalive: Duration::from_secs(4),
        max_age: Some(Duration::from_secs(3_600)),
    };
    assert_eq!(options, all);
    assert_eq!(envoy("headers = []").headers, Headers::none());
    let unix = Headers::default().x_rate_limit(Reset::UnixTime);
    assert_eq!(envoy("headers = ['ratelimit', 'retry-after', 'x-ratelimit-unix']").headers, unix);
    assert_eq!(envoy(""), grpc::Options::default());
}

#[test]
fn yaml_and_toml_give_equal_configurations() {
    let toml = r#"
        [server]
        http = "off"
        [limits.login]
        limit = "5/minute"
        exempt = ["a", "007"]
        [auth]
        allow_anonymous = true
    "#;
    let yaml = "
server: { http: off }
limits:
  login:
    limit: 5/minute
    exempt: [a, 007]
auth:
  allow_anonymous: true
";
    let json = r#"{"server": {"http": "off"}, "limits": {"login": {"limit": "5/minute", "exempt": ["a", "007"]}},
        "auth": {"allow_anonymous": true}}"#;
    let toml = read(toml, "t.toml").unwrap();
    assert_eq!(toml, read(yaml, "t.yaml").unwrap());
    assert_eq!(toml, read(json, "t.json").unwrap());
    assert_eq!(read("", "t.yaml").unwrap(), read("", "t.toml").unwrap());
}

/// Each invalid file with all of its problems.
#[test]
fn every_mistake_is_reported_with_its_place() {
    let toml: &[(&str, &[&str])] = &[
        (
            "[limits]\nlogin = \"5/fortnight\"",
            &[
                "t.toml:2:12: limits.login: at 2: found \"fortnight\", expected a unit of time: millisecond, second, minute, hour, day or week",
            ],
        ),
        (
            "[limits.login]\nlimt = '5/minute'",
            &[
                "t.toml:1:9: limits.login: a rule needs a limit such as \"100/minute\"",
                "t.toml:2:1: limits.login.limt: unknown; did you mean limit?",
            ],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\nnonsense = 1",
            &[
                "t.toml:3:1: limits.login.nonsense: unknown; known are limit, shadow, cost, on_failure, deadline, costs, blocked, exempt, overrides",
            ],
        ),
        (
            "[limits.login]\nlimit = 5",
            &[
                "t.toml:2:9: limits.login.limit: at 1: found the end of the text, expected /, per, concurrent or total",
            ],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\nshadow = 'yes'",
            &["t.toml:3:11: limits.login.shadow: expected true or false, found the text \"yes\""],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\ncost = -1",
            &["t.toml:3:8: limits.login.cost: expected a whole number, found -1"],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\ndeadline = '20 parsecs'",
            &[
                "t.toml:3:13: limits.login.deadline: \"20 parsecs\" is not a duration: at 3: found \"parsecs\", expected a unit of time: millisecond, second, minute, hour, day or week",
            ],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\non_failure = 'shrug'",
            &[
                "t.toml:3:15: limits.login.on_failure: \"shrug\": expected error, open, closed, or local with a share of the limit such as \"local 1/4\"",
            ],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\n[limits.login.overrides]\n'gold:*' = '50/minut'",
            &[
                "t.toml:4:16: limits.login.overrides.\"gold:*\": at 3: found \"minut\", expected a unit of time: millisecond, second, minute, hour, day or week",
            ],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\nexempt = ['a']\nblocked = ['a']",
            &["t.toml:3:12: limits.login.exempt: \"a\": this key is in here already"],
        ),
        (
            "[limits.login]\nlimit = '5/minute'\nexempt = [['a']]",
            &["t.toml:3:11: limits.login.exempt: expected a text, found a list"],
        ),
        (
            "[limits.login]\nlimit = { quota = 5 }",
            &["t.toml:2:1: limits.login.limit: a limit needs a quota and a period"],
        ),
        (
            "[limits.login]\nlimit = { quota = 0, period = '1s' }",
            &["t.toml:2:1: limits.login.limit: quota 0: must be from 1 to 1000000000000"],
        ),
        (
            "[limits.login]\nlimit = { quota = 1, period = '1s', bust = 3 }",
            &[
                "t.toml:2:37: limits.login.limit: \"bust\": unknown; known are quota, period, algorithm, burst, name, charge_denied, and of a ban after, for, max, push",
            ],
        ),
        (
            "[limits]\nlogin = '5/minute; 6/minute'",
            &[
                "t.toml:2:10: limits.login: limit \"6/minute name=login\" twice in one policy: each may appear once",
            ],
        ),
        ("[sever]\nhttp = 1", &["t.toml:1:2: sever: unknown; did you mean server?"]),
        (
            "[server]\nhttp = 'localhost'",
            &[
                "t.toml:2:9: server.http: \"localhost\" is no address: expected a port (8080), an address with a port (127.0.0.1:8080, [::1]:8080) or off",
            ],
        ),
        ("server = 1", &["t.toml:1:10: server: expected a table, found 1"]),
        (
            "[store]\nmax_keys = 'many'",
            &["t.toml:2:13: store.max_keys: expected a whole number, found the text \"many\""],
        ),
        (
            "[log]\nformat = 'xml'",
            &["t.toml:2:11: log: format: unknown variant `xml`, expected `text` or `json`"],
        ),
        (
            "[log]\nlevel = 'info'\nlevle = 'x'",
            &["t.toml:3:1: log: unknown field `levle`, expected `level` or `format`"],
        ),
        (
            "[connections]\ngrace = 5",
            &[
                "t.toml:2:9: connections: grace: \"5\" is not a duration: at 1: found the end of the text, expected a unit of time: millisecond, second, minute, hour, day or week",
            ],
        ),
        (
            "[auth.tokens]\nshop = 'tg_secret'",
            &[
                "t.toml:2:9: auth: tokens: shop: 9 characters that are no hash of a token: expected sha256: and 64 hexadecimal digits; `tollgate token` makes a token and its hash",
            ],
        ),
        (
            "[envoy]\nheaders = ['ratelimit', 'x-rate']\nmax_header = -1",
            &[
                "t.toml:2:26: envoy.headers: \"x-rate\": expected a list of ratelimit, ratelimit-limit, x-ratelimit, x-ratelimit-unix, retry-after",
                "t.toml:3:14: envoy.max_header: expected a whole number, found -1",
            ],
        ),
        ("[limits\nx = 1", &["t.toml:1:8: unclosed table, expected `]`"]),
        (
            "include = ['x.yaml']",
            &["t.toml:1:13: include: \"x.yaml\": an include needs a main file"],
        ),
        (
            "[namespaces.'~x'.limits]\na = '1/s'",
            &[
                "t.toml:1:13: namespaces.~x: a namespace is not empty and begins neither with ~ nor with domain:",
            ],
        ),
        (
            "[[domains.shop.descriptors]]\nkey = 'a'\nlimit = '5/minute'\nrate_limit = { unit = 'day' }",
            &[
                "t.toml:1:1: domains.shop.descriptors[0]: rate_limit and limit: only one of them is allowed",
            ],
        ),
    ];
    all_said(toml, "t.toml");
    assert_eq!(
        problems("", "t.ini"),
        ["t.ini: a name that ends in \"ini\": expected .toml, .yaml, .yml or .json"]
    );
}

#[test]
fn files_of_envoy_are_checked_as_its_own_server_does() {
    let yaml: &[(&str, &[&str])] = &[
        ("descriptors:\n  - key: a", &["e.yaml:1:1: domain: must not be empty"]),
        ("domain: ''\ndescriptors: []", &["e.yaml:1:1: domain: must not be empty"]),
        (
            "domain: d\ndescriptors:\n  - value: x",
            &["e.yaml:3:5: descriptors[0]: a descriptor needs a key that is not empty"],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: fortnight, requests_per_unit: 5}",
            &[
                "e.yaml:4:24: descriptors[0].rate_limit.unit: \"fortnight\" is no unit; expected second, minute, hour, day, week, month, year",
            ],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {requests_per_unit: 5}",
            &[
                "e.yaml:4:5: descriptors[0].rate_limit: a rate limit needs a unit, or unlimited: true",
            ],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unlimited: true\n      unit: day",
            &["e.yaml:6:7: descriptors[0].rate_limit.unit: unlimited has no unit"],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    ratelimit:\n      unit: day",
            &["e.yaml:4:5: descriptors[0].ratelimit: unknown; did you mean rate_limit?"],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: day\n      requests_per_unit: lots",
            &[
                "e.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: expected a whole number, found lots",
            ],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n  - key: a\n",
            &["e.yaml:4:5: descriptors[1]: \"a\": written twice, first in line 3"],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    value: x\n    share_threshold: true\n    rate_limit: {unit: day, requests_per_unit: 1}",
            &[
                "e.yaml:5:5: descriptors[0].share_threshold: only values with a * can share a counter",
            ],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}",
            &["e.yaml:3:5: descriptors[0]: replaces: \"n\" would replace itself"],
        ),
        (
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}",
            &[
                "e.yaml:4:62: descriptors[0].rate_limit.replaces: an entry needs the name of a limit",
            ],
        ),
        (
            "domain: d\ndescriptors:\n  - a\n",
            &["e.yaml:3:5: descriptors[0]: expected a table, found a"],
        ),
        ("domain: d\ndescriptors: 5\n", &["e.yaml:2:14: descriptors: expected a list, found 5"]),
        (
            "domain: d\nlimits: {}\n",
            &["e.yaml:2:1: limits: unknown; known are domain, calendar_units, descriptors"],
        ),
        ("domain: d\ndomain: e\n", &["e.yaml:2:1: \"domain\": written twice, first in line 1"]),
        ("domain: d\n---\ndomain: e\n", &["e.yaml:2:1: a second document: a file holds one"]),
        ("domain: [d\n", &["e.yaml:1:9: unclosed bracket '['"]),
        ("domain: !secret d\n", &["e.yaml:1:17: a tag: those of YAML itself are known here"]),
        ("- a\n", &["e.yaml:1:1: the file: expected a table, found a list"]),
    ];
    all_said(yaml, "e.yaml");
}

#[test]
fn a_file_of_envoys_server_is_read_as_it_is() {
    let text = r#"
domain: shop
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: { unit: minute, requests_per_unit: 60, name: free_user }
        shadow_mode: true
  - key: path
    value: /files/*
    share_threshold: yes
    detailed_metric: true
    metadata: { team: storage, weight: 3, nested: { a: [true, null] } }
    rate_limit: { unit: HOUR, requests_per_unit: 10, replaces: [{ name: free_user }] }
  - key: internal
    rate_limit: { unlimited: true }
  - key: banned
    rate_limit: { unit: second, requests_per_unit: 0 }
  - key: code
    value: 404
    quota_mode: true
    rate_limit: { unit: month, requests_per_unit: 7 }
  - key: year
    rate_limit: { unit: year, requests_per_unit: 7, algorithm: gcra }
  - key: any
    limit: 3 per 10 minutes
  - key: sparing
    charge: false
    rate_limit: { unit: day, requests_per_unit: 7 }
"#;
    let Config { rules, warnings, .. } = read(text, "shop.yaml").unwrap();
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "shop.yaml:13:5: descriptors[1].detailed_metric: metrics are counted by rule and never by value; the busiest values are at the admin port"
        ]
    );
    let shop = &rules.domains["shop"];
    let rule = |index: usize| shop[index].rule.as_ref().unwrap();
    let user = shop[0].descriptors[0].rule.as_ref().unwrap();
    assert_eq!(
        (shop[0].value.as_ref(), &user.name[..]),
        (Some(&Pattern::new("free")), "free_user")
    );
    assert_eq!(
        (limited(&user.treatment), user.shadow),
        ("60/minute fixed-window charge-denied".to_owned(), true)
    );
    assert_eq!(rule(1).name, "path=/files/*");
    assert!(shop[1].shared);
    assert_eq!(rule(1).envoy.replaces, ["free_user"]);
    assert_eq!(rule(1).envoy.rate, Some(Rate { requests: 10, unit: Unit::Hour }));
    let metadata = serde_json::to_string(&rule(1).envoy.metadata).unwrap();
    assert_eq!(metadata, r#"{"nested":{"a":[true,null]},"team":"storage","weight":3}"#);
    assert_eq!(rule(2).treatment, Treatment::Exempt);
    assert_eq!(rule(3).treatment, Treatment::Blocked);
    assert_eq!(rule(3).envoy.rate, Some(Rate { requests: 0, unit: Unit::Second }));
    assert_eq!(shop[4].value, Some(Pattern::new("404")));
    assert!(rule(4).envoy.quota);
    assert_eq!(limited(&rule(4).treatment), "7 per 30 days fixed-window charge-denied");
    assert_eq!(limited(&rule(5).treatment), "7 per 365 days");
    assert_eq!(limited(&rule(6).treatment), "3 per 10 minutes");
    assert_eq!(limited(&rule(7).treatment), "7/day fixed-window");
}

#[test]
fn anchors_and_merges_of_yaml_work_within_a_bound() {
    let text = "
domain: d
descriptors:
  - &one
    key: a
    rate_limit: &rate { unit: day, requests_per_unit: 3 }
  - { key: b, rate_limit: *rate }
  - { <<: *one, key: c }
";
    let rules = read(text, "t.yaml").unwrap().rules;
    let texts: Vec<_> = rules.domains["d"]
        .iter()
        .map(|node| limited(&node.rule.as_ref().unwrap().treatment))
        .collect();
    assert_eq!(texts, ["3/day fixed-window charge-denied"; 3]);

    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = level - 1;
        let all = vec![format!("*a{below}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{all}]\n"));
    }
    let problems = problems(&bomb, "t.yaml");
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("aliases repeat more than 200000 parts"), "{problems:?}");
}

#[test]
fn files_are_included_and_directories_read() {
    let dir = tollgate_testservers::Directory::new();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let main =
        write("main.toml", "include = ['rules/*.yaml', 'more', 'one.toml']\nlimits.a = '1/s'");
    write("rules/shop.yaml", "domain: shop\ndescriptors: [{key: a, limit: 1/s}]");
    write("rules/skipped.txt", "nonsense");
    write("rules/..data.yaml", "nonsense: [");
    write("more/x.toml", "limits.b = '1/s'");
    write("one.toml", "namespaces.n.limits.c = '1/s'");
    let config = Files::at(&main).load().unwrap();
    let names: Vec<_> =
        config.rules.limits.keys().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    assert_eq!(names, ["/a", "/b", "n/c"]);
    assert_eq!(config.rules.domains.len(), 1);

    // An included file may hold rules only: settings belong in the main file.
    let problems = |path: &Path| {
        let error = Files::at(path).load().unwrap_err();
        error.to_string().replace(&format!("{}/", dir.path().display()), "")
    };
    write("more/y.toml", "[store]\nurl = 'memory:'");
    assert_eq!(
        problems(&main),
        "more/y.toml:1:2: store: unknown; known are limits, namespaces, domains"
    );
    write("more/y.toml", "limits.b = '2/s'");
    assert_eq!(problems(&main), "more/y.toml:1:8: limits.b: written twice, first in more/x.toml:1");
    std::fs::remove_file(dir.path().join("more/y.toml")).unwrap();
    write("rules/again.yaml", "domain: shop\ndescriptors: [{key: b, limit: 1/s}]");
    assert_eq!(
        problems(&main),
        "rules/shop.yaml:1:1: domain \"shop\": written twice, first in rules/again.yaml:1; merge_domains = true or --merge-domains allows it"
    );
    // A directory has no main file with the setting, so it is passed in.
    let directory = Files::at(dir.path().join("rules"));
    assert!(directory.load().is_err());
    let merged = Files { merge_domains: true, ..directory };
    assert_eq!(merged.load().unwrap().rules.domains["shop"].len(), 2);
    assert_eq!(
        Files { path: main.clone(), ..merged }.load().unwrap().rules.domains["shop"].len(),
        2
    );
    write("main.toml", "merge_domains = true\ninclude = 'rules/*.yaml'");
    assert_eq!(Files::at(&main).load().unwrap().rules.domains["shop"].len(), 2);
    write("rules/again.yaml", "domain: shop\ndescriptors: [{key: a, limit: 1/s}]");
    assert_eq!(
        problems(&main),
        "rules/shop.yaml:1:1: domain \"shop\": a=\"\" is in another file already"
    );
    write("main.toml", "include = ['nowhere.yaml', 'none/*.yaml']");
    assert!(problems(&main).starts_with("main.toml:1:13: include: \"nowhere.yaml\": no such file\nmain.toml:1:29: include: \"none/*.yaml\": "));

    // A directory in place of a file, as Envoy's server allows it.
    std::fs::remove_file(dir.path().join("rules/again.yaml")).unwrap();
    let config = Files::at(dir.path().join("rules")).load().unwrap();
    assert_eq!((config.rules.len(), config.settings), (1, Settings::default()));
    assert_eq!(
        problems(&dir.path().join("missing.toml")),
        "missing.toml: No such file or directory (os error 2)"
    );
}

#[test]
fn long_descriptor_paths_get_short_distinct_names() {
    let file = |last: &str| {
        let value = "x".repeat(300);
        let text =
            format!("domain: d\ndescriptors:\n- {{key: a, value: {value}{last}, limit: 1/s}}");
        read(&text, "t.yaml").unwrap().rules.domains["d"][0].rule.clone().unwrap().name
    };
    assert!(file("1").len() <= 200);
    assert_ne!(file("1"), file("2"));
    assert_eq!(file("1"), file("1"));
}

/// Pieces of files, so that random texts get further than the first line.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[limits.a]\n",
        "[store]\n",
        "limit = ",
        "'5/minute'",
        "\"5/second\"",
        "\n",
        " ",
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "domain: d\n",
        "descriptors:\n",
        "  - key: a\n",
        "    rate_limit:\n",
        "      unit: day\n",
        "      requests_per_unit: 5\n",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "|\n  x",
        "limits:\n",
        "  a:\n",
        "    limit: ",
        "5/minute",
        "é",
        "\u{feff}",
        "\t",
        "#",
        "'",
        "\"",
        "=",
        "overrides",
        "[tls]\n",
        "key = 'a'\n",
        "...",
        "---\n",
        "\r\n",
        "0x10",
        "1e9",
        "null",
    ]);
    prop_oneof![
        3 => prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in pieces(), name in prop::sample::select(vec!["t.toml", "t.yaml"])) {
        if let Err(Problems(problems)) = read(&text, name) {
            prop_assert!(!problems.is_empty());
            // In YAML a single carriage return ends a line too.
            let lines = text.split(['\n', '\r']).count() + 1;
            for problem in problems {
                prop_assert!((1..=lines).contains(&problem.line), "{problem} in {text:?}");
                prop_assert!(!problem.message.is_empty() && problem.column >= 1);
            }
        }
    }
}
