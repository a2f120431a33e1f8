//! Buses with TLS: a replica that trusts the engine joins the others, and one that does not stays
//! alone.

use tollgate_cluster::bus::{AnyBus, Nats, RedisPubSub};
use tollgate_cluster::replicated::Replicated;
use tollgate_testservers::calls::{eventually, limiter, run};
use tollgate_testservers::{Certificates, Engine, free_port};

async fn replica(bus: AnyBus) -> Replicated {
    Replicated::builder(bus).start().await.unwrap()
}

fn replicas_meet_where_they_trust(trusting: impl Fn() -> AnyBus, doubtful: AnyBus) {
    run(async {
        let fleet = [replica(trusting()).await, replica(trusting()).await];
        let alone = replica(doubtful).await;
        for replica in fleet.iter().chain([&alone]) {
            assert!(limiter(replica, "1000/day").charge("key", 5).await.is_ok());
        }
        eventually("the two have met", || async {
            fleet.iter().all(|replica| replica.stats().peers == 1)
        })
        .await;
        eventually("the two have counted all", || async {
            let usage = async |replica| limiter(replica, "1000/day").usage("key").await.unwrap();
            (usage(&fleet[0]).await, usage(&fleet[1]).await) == (10, 10)
        })
        .await;
        let stats = alone.stats();
        assert_eq!((stats.ready, stats.peers), (false, 0));
        assert_eq!(limiter(&alone, "1000/day").usage("key").await.unwrap(), 5);
    });
}

#[test]
fn replicas_meet_over_nats_where_the_certificate_is_trusted() {
    let files = Certificates::new();
    let (certificate, key) = (files.name("server.crt"), files.name("server.key"));
    let engine = Engine::nats(&["--tls", "--tlscert", &certificate, "--tlskey", &key]);
    let bus = || Nats::new(&format!("tls://127.0.0.1:{}", engine.port())).unwrap();
    let trusting = || AnyBus::Nats(bus().root_certificates(files.file("ca.crt")));
    replicas_meet_where_they_trust(trusting, AnyBus::Nats(bus()));
}

#[test]
fn replicas_meet_over_redis_where_the_certificate_is_trusted() {
    let files = Certificates::new();
    let (certificate, key) = (files.name("server.crt"), files.name("server.key"));
    let port = free_port();
    let arguments = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"];
    let names = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file"];
    let _engine = Engine::redis(&[&arguments[..], &names, &[&files.name("ca.crt")]].concat());
    let bus = || RedisPubSub::new(&format!("rediss://127.0.0.1:{port}")).unwrap();
    let pem = std::fs::read(files.file("ca.crt")).unwrap();
    let trusting = || AnyBus::Redis(Box::new(bus().root_certificates(pem.clone())));
    replicas_meet_where_they_trust(trusting, AnyBus::Redis(Box::new(bus())));
}
