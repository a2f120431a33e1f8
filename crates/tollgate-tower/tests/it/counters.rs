//! Counters by limit and outcome, read back from a recorder.

use axum::Router;
use axum::routing::get;
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tollgate_tower::{Gate, KeyBy, OnMissing, RateLimitLayer};

use crate::flaky::Flaky;
use crate::net::{Browser, serve, stopped};

/// Runs on one thread, because the recorder belongs to a thread.
#[test]
fn requests_are_counted_by_limit_and_outcome_and_never_by_key() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(some_requests()));

    let (mut counted, mut measured) = (Vec::new(), 0);
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        match value {
            DebugValue::Counter(count) => {
                assert_eq!(key.key().name(), "tollgate_http_requests_total");
                counted.push(format!("{} {count}", labels.join(" ")));
            }
            DebugValue::Histogram(values) => {
                assert_eq!(key.kind(), MetricKind::Histogram);
                assert_eq!(key.key().name(), "tollgate_http_decision_seconds");
                measured += values.len();
            }
            DebugValue::Gauge(_) => panic!("{key:?}"),
        }
    }
    counted.sort();
    let expected = [
        "limit=10/day outcome=error 1",
        "limit=api outcome=allowed 2",
        "limit=api outcome=denied 3",
        "limit=none outcome=denied 1",
        "limit=none outcome=unlimited 1",
        "limit=seen outcome=allowed 1",
        "limit=seen outcome=shadow 2",
    ];
    assert_eq!(counted, expected);
    assert_eq!(measured, 9, "every decision of a limit");
}

async fn some_requests() {
    let app = |layer| Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let browser = Browser::h1();

    let layer = RateLimitLayer::new(stopped().limiter("2/day name=api").unwrap());
    browser.statuses(serve(app(layer)).await, "/", 5).await;

    let gate = Gate::new(stopped().limiter("1/day name=seen").unwrap()).shadow();
    browser.statuses(serve(app(RateLimitLayer::from_gate(gate))).await, "/", 3).await;

    let gate = Gate::new(stopped().limiter("1/day").unwrap()).exempt(|_, _| true);
    browser.statuses(serve(app(RateLimitLayer::from_gate(gate))).await, "/", 1).await;

    let gate = Gate::new(stopped().limiter("1/day").unwrap());
    let gate = gate.key(KeyBy::bearer()).on_missing(OnMissing::Refuse(401));
    browser.statuses(serve(app(RateLimitLayer::from_gate(gate))).await, "/", 1).await;

    let store = Flaky::new();
    store.fail(true);
    let layer = RateLimitLayer::new(store.limiter("10/day"));
    let server = serve(Router::new().route("/", get(|| async { "hello" })).layer(layer)).await;
    browser.statuses(server, "/", 1).await;
}
