//! Several descriptors: all or nothing.

use super::*;

fn both() -> [RateLimitDescriptor; 2] {
    [on([("user", "a")]), on([("path", "/")])]
}

#[tokio::test]
async fn a_denied_descriptor_leaves_the_others_uncharged() {
    let mut client =
        Server::start(vec![each("user", "9/day"), each("path", "2/day")]).await.client().await;
    for _ in 0..2 {
        assert_eq!(codes(&client.ask(both()).await), [Code::Ok; 2]);
    }
    for _ in 0..5 {
        let answer = client.ask(both()).await;
        assert_eq!(codes(&answer), [Code::Ok, Code::OverLimit]);
        assert_eq!(answer.statuses[0].limit_remaining, 7);
    }
    assert_eq!(client.left(cost(0, on([("user", "a")]))).await, (true, 7));
}

#[tokio::test]
async fn concurrent_requests_admit_exactly_the_limit() {
    let server = Server::start(vec![each("user", "1000/day"), each("path", "100/day")]).await;
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = server.client().await;
        askers.spawn(async move {
            let mut passed = 0;
            for _ in 0..50 {
                passed += u32::from(client.ask(both()).await.overall_code == i32::from(Code::Ok));
            }
            passed
        });
    }
    assert_eq!(askers.join_all().await.iter().sum::<u32>(), 100);
    let mut client = server.client().await;
    assert_eq!(client.left(cost(0, on([("user", "a")]))).await, (true, 900));
}

#[tokio::test]
async fn one_descriptor_twice_costs_twice() {
    let mut client = Server::start(vec![each("user", "5/day")]).await.client().await;
    let user = || on([("user", "a")]);
    let answer = client.ask([user(), cost(2, user())]).await;
    assert_eq!(answer.statuses.iter().map(|s| s.limit_remaining).collect::<Vec<_>>(), [2, 2]);
    let answer = client.ask([user(), cost(2, user())]).await;
    assert_eq!(codes(&answer), [Code::OverLimit; 2]);
    assert_eq!(client.left(cost(2, user())).await, (true, 0), "nothing was charged");
}

#[tokio::test]
async fn a_denied_peek_keeps_hits_from_being_charged() {
    let mut client =
        Server::start(vec![each("user", "9/day"), each("tokens", "3/day")]).await.client().await;
    let tokens = || on([("tokens", "a")]);
    assert_eq!(client.left(cost(3, tokens())).await, (true, 0));
    let answer = client.ask([on([("user", "a")]), cost(0, tokens())]).await;
    assert_eq!(codes(&answer), [Code::Ok, Code::OverLimit]);
    assert_eq!(client.left(cost(0, on([("user", "a")]))).await, (true, 9));
}

#[tokio::test]
async fn a_refund_is_made_whatever_the_other_limits_decide() {
    let mut client =
        Server::start(vec![each("user", "1/day"), each("tokens", "9/day")]).await.client().await;
    let (user, tokens) = (|| on([("user", "a")]), || on([("tokens", "a")]));
    client.ask([user(), cost(9, tokens())]).await;
    let answer = client.ask([user(), refund(4, tokens())]).await;
    assert_eq!(codes(&answer), [Code::OverLimit, Code::Ok]);
    assert_eq!(client.left(cost(0, tokens())).await, (true, 4));
}

#[tokio::test]
async fn a_shadow_is_not_charged_for_a_request_that_is_refused() {
    let mut client =
        Server::start(vec![each("user", "1/day"), shadow("path", "9/day")]).await.client().await;
    client.ask(both()).await;
    let answer = client.ask(both()).await;
    assert_eq!(codes(&answer), [Code::OverLimit, Code::Ok]);
    assert_eq!(client.left(cost(0, on([("path", "/")]))).await, (true, 8));
}

/// The rules are written as in files of Envoy's own server.
#[tokio::test]
async fn limits_that_charge_denied_hits_charge_whatever_the_others_decide() {
    let rule =
        |key: &str, quota: u64| each(key, &format!("{quota}/day fixed-window charge-denied"));
    let blocked = treated("blocked", Treatment::Blocked);
    let rules = vec![rule("user", 9), rule("path", 2), each("ip", "9/day"), blocked];
    let mut client = Server::start(rules).await.client().await;
    let peek = |key: &'static str, value: &'static str| cost(0, on([(key, value)]));
    for _ in 0..4 {
        client.ask(both()).await;
    }
    assert_eq!(client.left(peek("user", "a")).await, (true, 5));
    let blocked = || on([("blocked", "")]);
    client.ask([on([("user", "a")]), on([("ip", "a")]), blocked()]).await;
    assert_eq!(client.left(peek("user", "a")).await, (true, 4), "a block refused");
    assert_eq!(client.left(peek("ip", "a")).await, (true, 9));
    client.ask([on([("user", "a")]), on([("ip", "a")]), peek("path", "/")]).await;
    assert_eq!(client.left(peek("user", "a")).await, (true, 3), "a peek refused");
    assert_eq!(client.left(peek("ip", "a")).await, (true, 9));
}
