//! The fields of statuses.

use tollgate_server::rules::EnvoyOptions;

use super::*;

#[tokio::test]
async fn every_descriptor_has_a_status_in_order() {
    let rules = vec![each("user", "5/minute"), treated("internal", Treatment::Exempt)];
    let mut client = Server::start(rules).await.client().await;
    let asked = [on([("free", "x")]), on([("user", "a")]), on([("internal", "b")])];
    let answer = client.ask(asked).await;
    assert_eq!(codes(&answer), [Code::Ok; 3]);
    let limits: Vec<_> =
        answer.statuses.iter().map(|status| status.current_limit.is_some()).collect();
    assert_eq!(limits, [false, true, false], "a limit is shown only where one holds");
    let left: Vec<_> = answer.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(left, [0, 4, u32::MAX]);
}

#[tokio::test]
async fn a_limit_is_shown_with_its_unit_and_its_name() {
    let rules =
        ["1 second", "1 minute", "1 hour", "1 day", "1 week", "30 days", "365 days", "10 seconds"];
    let keys: Vec<String> = (0..rules.len()).map(|index| format!("key{index}")).collect();
    let rules: Vec<_> =
        keys.iter().zip(rules).map(|(key, period)| each(key, &format!("7 per {period}"))).collect();
    let mut client = Server::start(rules).await.client().await;
    let answer = client.ask(keys.iter().map(|key| on([(key, "x")]))).await;
    let shown = answer.statuses.iter().map(|status| status.current_limit.clone().unwrap());
    let shown: Vec<_> = shown.collect();
    let units = [
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
        Unit::Week,
        Unit::Month,
        Unit::Year,
        Unit::Unknown,
    ];
    assert_eq!(shown.iter().map(|limit| limit.unit).collect::<Vec<_>>(), units.map(i32::from));
    assert!(shown.iter().all(|limit| limit.requests_per_unit == 7));
    assert_eq!(shown[3].name, "key3 rule");
}

#[tokio::test]
async fn numbers_that_do_not_fit_saturate() {
    let mut client = Server::start(vec![each("user", "1000000000000/day")]).await.client().await;
    let answer = client.ask([on([("user", "a")])]).await;
    let status = &answer.statuses[0];
    assert_eq!(status.limit_remaining, u32::MAX);
    assert_eq!(status.current_limit.clone().unwrap().requests_per_unit, u32::MAX);
}

#[tokio::test]
async fn seconds_until_reset_are_whole_and_rounded_up() {
    let rules = vec![each("user", "1 per 1500 milliseconds fixed-window-per-key")];
    let mut client = Server::start(rules).await.client().await;
    let answer = client.ask([on([("user", "a")])]).await;
    let reset = answer.statuses[0].duration_until_reset.unwrap();
    assert_eq!((reset.seconds, reset.nanos), (2, 0));
    // The answer to a denied request never says that it may retry now.
    let mut client = Server::start(vec![each("user", "1/second")]).await.client().await;
    client.ask([on([("user", "a")])]).await;
    let answer = client.ask([cost(2, on([("user", "a")]))]).await;
    assert_eq!(codes(&answer), [Code::OverLimit]);
    assert!(answer.statuses[0].duration_until_reset.unwrap().seconds >= 1);
}

#[tokio::test]
async fn a_shadow_counts_and_never_refuses() {
    let rules = vec![shadow("user", "1/day"), each("path", "10/day")];
    let mut client = Server::start(rules).await.client().await;
    for left in [0, 0, 0] {
        assert_eq!(client.left(on([("user", "a")])).await, (true, left));
    }
    let both = client.ask([on([("user", "a")]), on([("path", "/")])]).await;
    assert_eq!(codes(&both), [Code::Ok; 2]);
    assert_eq!(both.statuses[1].limit_remaining, 9, "the shadow does not hold up the others");
    let policy = &both.response_headers_to_add[0];
    assert_eq!(policy.value, "\"path rule\";q=10;w=86400", "a shadow is not shown to clients");
}

#[tokio::test]
async fn a_blocked_descriptor_is_over_limit_and_charges_no_other() {
    let rules = vec![treated("country", Treatment::Blocked), each("user", "5/day")];
    let mut client = Server::start(rules).await.client().await;
    let answer = client.ask([on([("country", "x")]), on([("user", "a")])]).await;
    assert_eq!(codes(&answer), [Code::OverLimit, Code::Ok]);
    assert_eq!(answer.statuses[0].current_limit.clone().unwrap().name, "country rule");
    assert_eq!(client.left(cost(0, on([("user", "a")]))).await, (true, 5));
}

#[tokio::test]
async fn a_rule_that_replaces_another_applies_alone() {
    let mut replacing = each("path", "3/day");
    let envoy = EnvoyOptions { replaces: vec!["user rule".into()], ..EnvoyOptions::default() };
    replacing.rule.as_mut().unwrap().envoy = envoy;
    let mut client = Server::start(vec![each("user", "1/day"), replacing]).await.client().await;
    for left in [2, 1, 0] {
        let answer = client.ask([on([("user", "a")]), on([("path", "/")])]).await;
        assert_eq!(codes(&answer), [Code::Ok; 2]);
        assert!(answer.statuses[0].current_limit.is_none(), "{answer:?}");
        assert_eq!(answer.statuses[1].limit_remaining, left);
    }
    assert_eq!(client.left(on([("user", "a")])).await, (true, 0), "alone it holds");
    assert_eq!(client.left(on([("user", "a")])).await, (false, 0));
}

#[tokio::test]
async fn entries_are_matched_in_order_at_the_same_depth() {
    let inner = each("user", "1/day");
    let free =
        Descriptor { descriptors: vec![inner], rule: None, ..pattern("plan", "free", "1/day") };
    let shared = Descriptor { shared: true, ..pattern("path", "/files/*", "2/day") };
    let mut client = Server::start(vec![free, shared]).await.client().await;
    assert!(client.left(on([("plan", "free"), ("user", "a")])).await.0);
    assert!(!client.left(on([("plan", "free"), ("user", "a")])).await.0);
    assert!(client.left(on([("plan", "free"), ("user", "b")])).await.0, "another user");
    for free in [on([("plan", "free")]), on([("user", "a")]), on([("plan", "paid"), ("user", "a")])]
    {
        let answer = client.ask([free]).await;
        assert!(answer.statuses[0].current_limit.is_none());
    }
    assert_eq!(client.left(on([("path", "/files/1")])).await, (true, 1));
    assert_eq!(client.left(on([("path", "/files/2")])).await, (true, 0), "one counter for all");
}

#[tokio::test]
async fn parts_of_descriptors_never_run_together() {
    let nested = |key: &str| Descriptor {
        rule: None,
        descriptors: vec![each("c", "1/day"), each("b_c", "1/day")],
        ..Descriptor::new(key, None)
    };
    let mut client = Server::start(vec![nested("a"), nested("a_b")]).await.client().await;
    assert!(client.left(on([("a", "b_c"), ("c", "")])).await.0);
    assert!(client.left(on([("a_b", "c"), ("c", "")])).await.0, "another counter");
    assert!(client.left(on([("a", "b"), ("c", "c")])).await.0, "another counter");
    assert!(!client.left(on([("a", "b_c"), ("c", "")])).await.0);
}

#[tokio::test]
async fn an_unknown_domain_has_no_limits_and_is_counted() {
    let server = Server::start(vec![each("user", "1/day")]).await;
    let mut client = server.client().await;
    for _ in 0..3 {
        let asked = RateLimitRequest { domain: "other".into(), ..request([on([("user", "a")])]) };
        let answer = client.send(Request::new(asked)).await.unwrap();
        assert_eq!(answer.overall_code, i32::from(Code::Ok));
        assert_eq!(codes(&answer), [Code::Ok]);
        assert_eq!(answer.statuses[0].current_limit, None);
    }
    assert_eq!(server.service.observer().unknown_domains(), 3, "and operators see it");
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_value_and_the_rule() {
    let mut client = Server::start(vec![each("user", "1/day")]).await.client().await;
    let user = || on([("user", "a")]);
    let no_domain = RateLimitRequest { domain: String::new(), ..request([user()]) };
    for (asked, text) in [
        (no_domain, "domain \"\": must not be empty"),
        (request([]), "descriptors: 0; expected 1 to 100"),
        (request(vec![user(); 101]), "descriptors: 101; expected 1 to 100"),
        (request([user(), on([])]), "descriptors[1]: 0 entries, and there must be at least 1"),
        (
            request([on([("user", "a"), ("", "b")])]),
            "descriptors[0].entries[1].key \"\": must not be empty",
        ),
        (
            request([overridden(3, Unit::Unknown, user())]),
            "limit.unit 0: must be a unit from second to year",
        ),
    ] {
        let status = client.send(Request::new(asked)).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (tonic::Code::InvalidArgument, text));
    }
    assert_eq!(client.left(user()).await, (true, 0), "and charged nothing");
}

fn quota(key: &str, limit: &str) -> Descriptor {
    let mut descriptor = each(key, limit);
    if let Some(rule) = &mut descriptor.rule {
        rule.envoy.quota = true;
    }
    descriptor
}

#[tokio::test]
async fn quota_rules_refuse_only_if_all_are_exceeded_and_then_cost_nothing() {
    let rules = vec![each("user", "9/day"), quota("own", "1/day"), quota("team", "2/day")];
    let mut client = Server::start(rules).await.client().await;
    let asked = || [on([("user", "a")]), on([("own", "a")]), on([("team", "b")])];
    let mut passed = Vec::new();
    for _ in 0..4 {
        let answer = client.try_ask(asked()).await.unwrap();
        passed.push((answer.overall_code == i32::from(Code::Ok), codes(&answer)));
    }
    let (ok, over) = (Code::Ok, Code::OverLimit);
    let expected = [
        (true, vec![ok, ok, ok]),
        (true, vec![ok, over, ok]),
        (false, vec![ok, over, over]),
        (false, vec![ok, over, over]),
    ];
    assert_eq!(passed, expected);
    assert_eq!(client.left(cost(0, on([("user", "a")]))).await, (true, 7), "given back");
}

#[tokio::test]
async fn a_blocking_rule_is_shown_with_its_written_rate() {
    use tollgate_server::rules::{Rate, Unit as Written};
    let mut rule = treated("country", Treatment::Blocked);
    if let Some(rule) = &mut rule.rule {
        rule.envoy.rate = Some(Rate { requests: 0, unit: Written::Hour });
    }
    let mut client = Server::start(vec![rule]).await.client().await;
    let limit =
        client.ask([on([("country", "x")])]).await.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (0, i32::from(Unit::Hour)));
}
