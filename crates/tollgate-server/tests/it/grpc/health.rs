//! The health service.

use super::*;
use tonic::codegen::tokio_stream::StreamExt;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const NAMES: [&str; 2] = ["", grpc::RATE_LIMIT_SERVICE];

fn named(name: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: name.to_owned() }
}

#[tokio::test]
async fn the_server_and_the_service_report_serving() {
    let server = Server::start(Vec::new()).await;
    let mut health = HealthClient::new(server.channel().await);
    for name in NAMES {
        let answer = health.check(named(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name}");
    }
    let status = health.check(named("other")).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
    let mut watch = health.watch(named("other")).await.unwrap().into_inner();
    let unknown = watch.next().await.unwrap().unwrap();
    assert_eq!(unknown.status(), ServingStatus::ServiceUnknown);
}

#[tokio::test]
async fn a_health_watcher_learns_of_the_stop_and_does_not_delay_it() {
    let server = Server::start(Vec::new()).await;
    for name in NAMES {
        let mut health = HealthClient::new(server.channel().await);
        let mut watch = health.watch(named(name)).await.unwrap().into_inner();
        assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        if name.is_empty() {
            continue;
        }
        server.drain.begin();
        assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert!(watch.next().await.is_none());
    }
    server.serving.await.unwrap();
}
