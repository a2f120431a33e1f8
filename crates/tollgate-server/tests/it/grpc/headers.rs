//! Headers that the proxy passes on to its clients.

use super::*;
use tollgate_http::{Headers, Reset};
use tollgate_server::grpc::proto::HeaderValue;

const LIMIT: &str = "2/day fixed-window-per-key";

fn user() -> RateLimitDescriptor {
    on([("user", "a")])
}

fn lines(headers: &[HeaderValue]) -> Vec<String> {
    headers.iter().map(|header| format!("{}: {}", header.key, header.value)).collect()
}

async fn client(options: Options) -> Client {
    Server::with(vec![each("user", LIMIT)], options).await.client().await
}

#[tokio::test]
async fn answers_carry_the_standard_headers() {
    let mut client = client(Options::default()).await;
    let policy = "ratelimit-policy: \"user rule\";q=2;w=86400";
    let passed = client.ask([user()]).await;
    assert_eq!(
        lines(&passed.response_headers_to_add),
        [policy, "ratelimit: \"user rule\";r=1;t=86400"]
    );
    assert!(passed.raw_body.is_empty() && passed.dynamic_metadata.is_none());
    let refused = client.ask([cost(2, user())]).await;
    let headers = lines(&refused.response_headers_to_add);
    assert_eq!(headers.len(), 3);
    assert!(headers[2].starts_with("retry-after: 86"), "{headers:?}");
    let never = client.ask([cost(3, user())]).await;
    let headers = lines(&never.response_headers_to_add);
    assert!(headers.iter().all(|line| !line.starts_with("retry-after")), "{headers:?}");
}

#[tokio::test]
async fn older_headers_or_none_can_be_configured() {
    let older = Headers::none().three_fields().x_rate_limit(Reset::Delta);
    let mut old = client(Options { headers: older, ..Options::default() }).await;
    let answer = old.ask([user()]).await;
    assert_eq!(
        lines(&answer.response_headers_to_add),
        [
            "ratelimit-limit: 2",
            "ratelimit-remaining: 1",
            "ratelimit-reset: 86400",
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 86400",
        ]
    );
    let mut none = client(Options { headers: Headers::none(), ..Options::default() }).await;
    assert!(none.ask([user()]).await.response_headers_to_add.is_empty());
}

#[tokio::test]
async fn the_headline_of_several_descriptors_is_shown() {
    let rules = vec![each("user", LIMIT), each("path", "9/day fixed-window-per-key")];
    let mut client = Server::start(rules).await.client().await;
    let answer = client.ask([on([("path", "/")]), user()]).await;
    assert_eq!(
        lines(&answer.response_headers_to_add),
        [
            "ratelimit-policy: \"path rule\";q=9;w=86400, \"user rule\";q=2;w=86400",
            "ratelimit: \"user rule\";r=1;t=86400",
        ]
    );
}

#[tokio::test]
async fn a_denial_can_have_a_problem_body() {
    let mut client = client(Options { problem: true, ..Options::default() }).await;
    let passed = client.ask([cost(2, user())]).await;
    assert!(passed.raw_body.is_empty());
    let refused = client.ask([user()]).await;
    let kind = "content-type: application/problem+json".to_owned();
    assert!(lines(&refused.response_headers_to_add).contains(&kind));
    let body: serde_json::Value = serde_json::from_slice(&refused.raw_body).unwrap();
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"], serde_json::json!(["user rule"]));
}

#[tokio::test]
async fn metadata_explain_each_answer_without_keys() {
    let mut rules = vec![each("user", LIMIT), shadow("path", "1/day")];
    if let Some(rule) = &mut rules[0].rule {
        let written = serde_json::json!({"plan": {"name": "gold"}});
        rule.envoy.metadata = written.as_object().cloned();
    }
    let server = Server::with(rules, Options { metadata: true, ..Options::default() }).await;
    let mut client = server.client().await;
    let asked = || [user(), on([("path", "/secret")]), on([("other", "x")])];
    client.ask(asked()).await;
    let told = client.ask(asked()).await.dynamic_metadata.unwrap();
    let text = format!("{told:?}");
    for expected in [
        "\"shop\"",
        "\"user rule\"",
        "\"allowed\"",
        "\"path rule\"",
        "\"shadowed\"",
        "\"free\"",
        "\"gold\"",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}
