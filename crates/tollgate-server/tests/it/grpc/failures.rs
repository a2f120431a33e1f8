//! Answers while the store does not respond.

use super::*;
use tollgate::shared::OnFailure;
use tollgate_testservers::{Engine, eventually, free_port};

fn user() -> RateLimitDescriptor {
    on([("user", "a")])
}

fn rules(on_failure: OnFailure) -> Vec<Descriptor> {
    let mut rule = each("user", "5/day");
    if let Some(rule) = &mut rule.rule {
        rule.on_failure = Some(on_failure);
    }
    vec![rule, treated("internal", Treatment::Exempt)]
}

fn nowhere() -> Opening {
    Opening::new(format!("redis://127.0.0.1:{}", free_port())).deadline(Duration::from_secs(1))
}

#[tokio::test]
async fn an_unavailable_store_is_a_status_and_never_an_answer() {
    let server = Server::on(nowhere(), rules(OnFailure::Error), Options::default()).await;
    let mut client = server.client().await;
    for asked in [
        vec![user()],
        vec![cost(0, user())],
        vec![refund(1, user())],
        vec![user(), on([("internal", "")])],
    ] {
        let status = client.try_ask(asked).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    }
    assert_eq!(client.left(on([("internal", "")])).await, (true, u32::MAX), "needs no store");
}

#[tokio::test]
async fn on_failure_of_a_rule_answers_without_the_store() {
    for (on_failure, passes) in [(OnFailure::Open, true), (OnFailure::Closed, false)] {
        let server = Server::on(nowhere(), rules(on_failure), Options::default()).await;
        assert_eq!(server.client().await.left(user()).await.0, passes, "{on_failure:?}");
    }
}

/// A store that accepts connections and never responds.
async fn silent() -> (tokio::net::TcpListener, Opening) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    (listener, Opening::new(url).deadline(Duration::from_secs(3_600)))
}

#[tokio::test]
async fn a_call_never_waits_longer_than_its_caller() {
    let (_listener, store) = silent().await;
    let server = Server::on(store, rules(OnFailure::Error), Options::default()).await;
    let mut client = server.client().await;
    let mut asked = Request::new(request([user()]));
    asked.metadata_mut().insert("x-envoy-expected-rq-timeout-ms", "20".parse().unwrap());
    let status = client.send(asked).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status:?}");
}

#[tokio::test]
async fn keys_that_a_store_cannot_decide_together_are_still_all_or_nothing() {
    let redis = Engine::redis(&["--cluster-enabled", "yes"]);
    let port = redis.port().to_string();
    let tell = |arguments: &[&str]| {
        let output =
            std::process::Command::new("redis-cli").args(["-p", &port]).args(arguments).output();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default()
    };
    eventually("it has all slots", || {
        tell(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        tell(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    });
    let store =
        Opening::new(format!("redis+cluster://127.0.0.1:{port}")).deadline(Duration::from_secs(30));
    let rules = vec![each("user", "9/day"), each("path", "2/day"), each("host", "9/day")];
    let server = Server::on(store, rules, Options::default()).await;
    let mut client = server.client().await;
    let asked = || [on([("user", "a")]), on([("path", "/")]), on([("host", "x")])];
    for _ in 0..2 {
        assert_eq!(codes(&client.ask(asked()).await), [Code::Ok; 3]);
    }
    for _ in 0..3 {
        assert_eq!(codes(&client.ask(asked()).await), [Code::Ok, Code::OverLimit, Code::Ok]);
    }
    assert_eq!(client.left(cost(0, on([("user", "a")]))).await, (true, 7), "given back");
    assert_eq!(client.left(cost(0, on([("host", "x")]))).await, (true, 7));
}
