//! Replicas on real engines, which are killed, frozen and cut off.

use tollgate::shared::SharedLimiter;
use tollgate_cluster::bus;
use tollgate_cluster::replicated::{Replicated, Settings};
use tollgate_testservers::Engine;
use tollgate_testservers::calls::{Line, eventually, limiter, run};

async fn replica(url: &str) -> Replicated {
    let mut settings = Settings::default();
    // The tests wait for replicas to agree again.
    settings.compare = std::time::Duration::from_secs(1);
    let replica = Replicated::builder(bus::open(url).unwrap()).settings(settings);
    let replica = replica.start().await.unwrap();
    replica.wait_ready().await;
    replica
}

async fn fleet(url: &str, nodes: usize) -> Vec<Replicated> {
    let mut fleet = Vec::new();
    for _ in 0..nodes {
        fleet.push(replica(url).await);
    }
    eventually("all have met", || async {
        fleet.iter().all(|replica| replica.stats().peers + 1 == nodes as u64)
    })
    .await;
    fleet
}

const LIMIT: &str = "1000/365 days fixed-window";

fn limiters(fleet: &[Replicated]) -> Vec<SharedLimiter<Replicated>> {
    fleet.iter().map(|replica| limiter(replica, LIMIT)).collect()
}

async fn charge_each(limiters: &[SharedLimiter<Replicated>], units: u64) {
    for limiter in limiters {
        assert!(limiter.charge("key", units).await.is_ok());
    }
}

async fn all_agree(fleet: &[Replicated], units: u64) {
    let limiters = limiters(fleet);
    eventually("all have counted all", || async {
        let mut all = fleet.iter().all(|replica| replica.digests() == fleet[0].digests());
        for limiter in &limiters {
            all &= limiter.usage("key").await.unwrap() == units;
        }
        all
    })
    .await;
}

fn replicas_agree_and_newcomers_get_the_counts(engine: &mut Engine) {
    run(async {
        let mut fleet = fleet(&engine.url(), 2).await;
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 10).await;
        fleet.push(replica(&engine.url()).await);
        // It was ready, so it has the counts.
        assert_eq!(limiters(&fleet)[2].usage("key").await.unwrap(), 10);
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 25).await;
        // Another fleet on the same engine does not receive these messages.
        let other = replica(&format!("{}#other", engine.url())).await;
        assert_eq!(limiter(&other, LIMIT).usage("key").await.unwrap(), 0);
        assert_eq!(other.stats().peers, 0);
    });
}

fn a_killed_engine_stops_no_replica(engine: &mut Engine) {
    run(async {
        let fleet = fleet(&engine.url(), 3).await;
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 15).await;
        let checked = |expected: bool| {
            let limiters = limiters(&fleet);
            eventually("checks tell whether the bus is there", move || {
                let limiters = limiters.clone();
                async move {
                    for limiter in &limiters {
                        if limiter.check().await.is_ok() != expected {
                            return false;
                        }
                    }
                    true
                }
            })
        };
        checked(true).await;
        engine.kill();
        charge_each(&limiters(&fleet), 5).await;
        checked(false).await;
        engine.again();
        all_agree(&fleet, 30).await;
        checked(true).await;
    });
}

fn a_frozen_engine_stops_no_replica(engine: &mut Engine) {
    run(async {
        let fleet = fleet(&engine.url(), 2).await;
        engine.freeze();
        charge_each(&limiters(&fleet), 5).await;
        eventually("they miss each other", || async {
            fleet.iter().all(|replica| replica.stats().missing == 1)
        })
        .await;
        charge_each(&limiters(&fleet), 5).await;
        engine.thaw();
        all_agree(&fleet, 20).await;
    });
}

fn a_replica_that_was_cut_off_agrees_again(engine: &mut Engine) {
    run(async {
        let line = Line::to(engine.port());
        let near = replica(&engine.url()).await;
        let far = replica(&engine.url_at(line.port())).await;
        let fleet = [near, far];
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 10).await;
        line.cut();
        eventually("they miss each other", || async {
            fleet.iter().all(|replica| replica.stats().missing == 1)
        })
        .await;
        charge_each(&limiters(&fleet), 5).await;
        line.mend();
        all_agree(&fleet, 20).await;
    });
}

fn without_an_engine_a_replica_starts_alone_and_joins_later(engine: &mut Engine) {
    run(async {
        engine.kill();
        let url = engine.url();
        let builder = |url: &str| Replicated::builder(bus::open(url).unwrap()).nodes(4);
        let fleet = [builder(&url).start().await.unwrap(), builder(&url).start().await.unwrap()];
        assert!(!fleet[0].stats().ready);
        // The replica keeps to its share until it has heard from others.
        let taken = limiters(&fleet)[0].take("key", 1000).await.unwrap().charged();
        assert_eq!(taken, 250);
        engine.again();
        for replica in &fleet {
            replica.wait_ready().await;
        }
        all_agree(&fleet, 250).await;
    });
}

fn agree_with_credentials(engine: &Engine, credentials: &str) {
    run(async {
        let url = engine.url().replace("//", &format!("//{credentials}@"));
        let fleet = fleet(&url, 2).await;
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 10).await;
    });
}

#[test]
fn nats_takes_credentials_from_the_url() {
    let engine = Engine::nats(&["--user", "gate", "--pass", "secret"]);
    agree_with_credentials(&engine, "gate:secret");
}

#[test]
fn redis_takes_credentials_from_the_url() {
    agree_with_credentials(&Engine::redis(&["--requirepass", "secret"]), "default:secret");
}

macro_rules! on_each_engine {
    ($($test:ident,)+) => {
        mod nats {
            $(#[test] fn $test() { super::$test(&mut super::Engine::nats(&[])); })+
        }
        mod redis {
            $(#[test] fn $test() { super::$test(&mut super::Engine::redis(&[])); })+
        }
    };
}

on_each_engine! {
    replicas_agree_and_newcomers_get_the_counts,
    a_killed_engine_stops_no_replica,
    a_frozen_engine_stops_no_replica,
    a_replica_that_was_cut_off_agrees_again,
    without_an_engine_a_replica_starts_alone_and_joins_later,
}
