//! Costs, peeks, refunds and limits of requests.

use super::*;

fn user() -> RateLimitDescriptor {
    on([("user", "a")])
}

async fn client(limit: &str) -> Client {
    Server::start(vec![each("user", limit)]).await.client().await
}

#[tokio::test]
async fn the_cost_of_a_request_is_that_of_descriptors_without_one() {
    let mut client = client("10/day").await;
    for (hits_addend, own, left) in
        [(0, None, 9), (1, None, 8), (3, None, 5), (3, Some(1), 4), (0, Some(4), 0)]
    {
        let descriptor = RateLimitDescriptor { hits_addend: own, ..user() };
        let asked = RateLimitRequest { hits_addend, ..request([descriptor]) };
        let answer = client.send(Request::new(asked)).await.unwrap();
        assert_eq!((codes(&answer), answer.statuses[0].limit_remaining), (vec![Code::Ok], left));
    }
}

#[tokio::test]
async fn a_present_cost_of_zero_is_a_peek() {
    let mut client = client("2/day").await;
    for _ in 0..3 {
        assert_eq!(client.left(cost(0, user())).await, (true, 2));
    }
    assert_eq!(client.left(cost(2, user())).await, (true, 0));
    assert_eq!(client.left(cost(0, user())).await, (false, 0), "the next hit would not pass");
}

#[tokio::test]
async fn a_denied_cost_takes_nothing_unless_the_limit_charges_denied_hits() {
    let mut client_ = client("10/day").await;
    assert_eq!(client_.left(cost(11, user())).await, (false, 10));
    assert_eq!(client_.left(cost(u64::MAX, user())).await, (false, 10));
    assert_eq!(client_.left(cost(10, user())).await, (true, 0));
    let mut charging = client("10/day fixed-window charge-denied").await;
    assert_eq!(charging.left(cost(8, user())).await, (true, 2));
    assert_eq!(charging.left(cost(3, user())).await, (false, 0));
    assert_eq!(charging.left(cost(0, user())).await, (false, 0));
}

#[tokio::test]
async fn a_charging_rule_counts_hits_that_do_not_fit() {
    for algorithm in ["gcra", "token-bucket", "leaky-bucket", "sliding-window", "moving-window"] {
        let mut tokens = each("user", &format!("10/day {algorithm}"));
        tokens.rule.as_mut().unwrap().envoy.charge = true;
        let mut client = Server::start(vec![tokens, each("ip", "1/day")]).await.client().await;
        assert_eq!(client.left(cost(0, user())).await, (true, 10), "{algorithm}");
        assert_eq!(client.left(cost(7, user())).await, (true, 3), "{algorithm}");
        assert_eq!(client.left(cost(25, user())).await, (true, 0), "{algorithm}");
        assert_eq!(client.left(cost(0, user())).await, (false, 0), "{algorithm}");
        assert_eq!(client.left(refund(4, user())).await, (true, 0), "{algorithm}: 28 of 10");
        // Reports a limit that is exceeded: it was charged although another rule denies.
        let other = on([("user", "b")]);
        client.ask([on([("ip", "x")])]).await;
        let answer = client.ask([on([("ip", "x")]), cost(4, other.clone())]).await;
        assert_eq!(codes(&answer), [Code::OverLimit, Code::Ok], "{algorithm}");
        assert_eq!(client.left(cost(0, other)).await, (true, 6), "{algorithm}");
    }
}

#[tokio::test]
async fn a_refund_gives_back_and_never_more_than_was_taken() {
    let mut client = client("5/day").await;
    assert_eq!(client.left(cost(5, user())).await, (true, 0));
    assert_eq!(client.left(refund(2, user())).await, (true, 2));
    assert_eq!(client.left(refund(1_000_000_000, user())).await, (true, 5));
    assert_eq!(client.left(refund(1, user())).await, (true, 5));
    assert_eq!(client.left(refund(0, user())).await, (true, 5));
    // A refund without a cost of its own has the cost of the request.
    assert_eq!(client.left(cost(3, user())).await, (true, 2));
    let bare = RateLimitDescriptor { is_negative_hits: true, ..user() };
    assert_eq!(client.left(bare).await, (true, 3));
}

#[tokio::test]
async fn a_limit_of_the_request_overrides_the_rule() {
    let mut client = client("1/day").await;
    let three = || overridden(3, Unit::Hour, user());
    for left in [2, 1, 0] {
        let answer = client.ask([three()]).await;
        let status = &answer.statuses[0];
        assert_eq!((code(status), status.limit_remaining), (Code::Ok, left));
        let limit = status.current_limit.clone().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit), (3, i32::from(Unit::Hour)));
    }
    assert_eq!(client.left(three()).await, (false, 0));
    let five = overridden(5, Unit::Hour, user());
    assert_eq!(client.left(five).await, (true, 0), "another quota, and the same count of 5");
    assert_eq!(client.left(user()).await, (true, 0), "the rule has a count of its own");
    let other = overridden(3, Unit::Hour, on([("user", "b")]));
    assert_eq!(client.left(other).await, (true, 2), "and so has another key");
}

#[tokio::test]
async fn a_limit_of_the_request_needs_no_rule() {
    let mut client = client("1/day").await;
    for (domain, passes) in [("other", true), ("other", false), ("another", true)] {
        let asked = request([overridden(1, Unit::Year, on([("key", "x")]))]);
        let asked = RateLimitRequest { domain: domain.into(), ..asked };
        let answer = client.send(Request::new(asked)).await.unwrap();
        assert_eq!(answer.overall_code == i32::from(Code::Ok), passes, "{domain}");
    }
}

#[tokio::test]
async fn a_limit_of_zero_blocks() {
    let mut client = client("9/day").await;
    assert!(!client.left(overridden(0, Unit::Hour, user())).await.0);
    assert!(!client.left(overridden(0, Unit::Unknown, user())).await.0);
    assert_eq!(client.left(user()).await, (true, 8));
}
