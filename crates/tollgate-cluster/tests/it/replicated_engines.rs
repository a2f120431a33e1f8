//! Replicas over real engines, which are killed, frozen and cut off.

use std::net::TcpStream;

use tollgate::shared::SharedLimiter;
use tollgate_cluster::bus;
use tollgate_cluster::replicated::{Replicated, Settings};
use tollgate_testkit::calls::{Line, eventually, limiter, run};
use tollgate_testkit::servers::{Process, free_port};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nats,
    Redis,
}

struct Engine {
    kind: Kind,
    port: u16,
    process: Process,
    args: Vec<String>,
}

impl Engine {
    fn start(kind: Kind) -> Engine {
        Engine::start_with(kind, &[])
    }

    fn start_with(kind: Kind, args: &[&str]) -> Engine {
        let program = match kind {
            Kind::Nats => "nats-server",
            Kind::Redis => "redis-server",
        };
        let args = args.iter().map(ToString::to_string).collect();
        let process = Process::new(program, program);
        let mut engine = Engine { kind, port: free_port(), process, args };
        engine.restart();
        engine
    }

    fn restart(&mut self) {
        let port = self.port.to_string();
        let usual: &[&str] = match self.kind {
            Kind::Nats => &["-a", "127.0.0.1", "-p", &port],
            Kind::Redis => {
                &["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", &port]
            }
        };
        let args = &self.args;
        self.process.start(|command| {
            command.args(usual).args(args);
        });
        let port = self.port;
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        tollgate_testkit::servers::eventually("it listens", listens);
    }

    fn url(&self, port: u16) -> String {
        match self.kind {
            Kind::Nats => format!("nats://127.0.0.1:{port}"),
            Kind::Redis => format!("redis://127.0.0.1:{port}"),
        }
    }
}

async fn replica(url: &str) -> Replicated {
    let mut settings = Settings::default();
    // Healing is what these tests wait for.
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

fn replicas_agree_and_newcomers_get_the_counts(kind: Kind) {
    run(async {
        let engine = Engine::start(kind);
        let mut fleet = fleet(&engine.url(engine.port), 2).await;
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 10).await;
        fleet.push(replica(&engine.url(engine.port)).await);
        // It was ready, so it has them.
        assert_eq!(limiters(&fleet)[2].usage("key").await.unwrap(), 10);
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 25).await;
        // Another fleet on the same engine hears nothing of it.
        let other = replica(&format!("{}#other", engine.url(engine.port))).await;
        assert_eq!(limiter(&other, LIMIT).usage("key").await.unwrap(), 0);
        assert_eq!(other.stats().peers, 0);
    });
}

fn a_killed_engine_stops_no_replica(kind: Kind) {
    run(async {
        let mut engine = Engine::start(kind);
        let fleet = fleet(&engine.url(engine.port), 3).await;
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 15).await;
        engine.process.kill();
        charge_each(&limiters(&fleet), 5).await;
        engine.restart();
        all_agree(&fleet, 30).await;
    });
}

fn a_frozen_engine_stops_no_replica(kind: Kind) {
    run(async {
        let engine = Engine::start(kind);
        let fleet = fleet(&engine.url(engine.port), 2).await;
        engine.process.freeze();
        charge_each(&limiters(&fleet), 5).await;
        eventually("they miss each other", || async {
            fleet.iter().all(|replica| replica.stats().missing == 1)
        })
        .await;
        charge_each(&limiters(&fleet), 5).await;
        engine.process.thaw();
        all_agree(&fleet, 20).await;
    });
}

fn a_replica_that_was_cut_off_agrees_again(kind: Kind) {
    run(async {
        let engine = Engine::start(kind);
        let line = Line::to(engine.port);
        let near = replica(&engine.url(engine.port)).await;
        let far = replica(&engine.url(line.port())).await;
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

fn without_an_engine_a_replica_starts_alone_and_joins_later(kind: Kind) {
    run(async {
        let mut engine = Engine::start(kind);
        engine.process.kill();
        let url = engine.url(engine.port);
        let builder = |url: &str| Replicated::builder(bus::open(url).unwrap()).nodes(4);
        let fleet = [builder(&url).start().await.unwrap(), builder(&url).start().await.unwrap()];
        assert!(!fleet[0].stats().ready);
        // Until it has heard of others it keeps to its share.
        let taken = limiters(&fleet)[0].take("key", 1000).await.unwrap().charged();
        assert_eq!(taken, 250);
        engine.restart();
        for replica in &fleet {
            replica.wait_ready().await;
        }
        all_agree(&fleet, 250).await;
    });
}

fn credentials_stand_in_the_url(kind: Kind) {
    run(async {
        let args: &[&str] = match kind {
            Kind::Nats => &["--user", "gate", "--pass", "secret"],
            Kind::Redis => &["--requirepass", "secret"],
        };
        let engine = Engine::start_with(kind, args);
        let user = if kind == Kind::Nats { "gate" } else { "default" };
        let url = engine.url(engine.port).replace("//", &format!("//{user}:secret@"));
        let fleet = fleet(&url, 2).await;
        charge_each(&limiters(&fleet), 5).await;
        all_agree(&fleet, 10).await;
    });
}

macro_rules! on_each_engine {
    ($($test:ident,)+) => {
        mod nats {
            $(#[test] fn $test() { super::$test(super::Kind::Nats); })+
        }
        mod redis {
            $(#[test] fn $test() { super::$test(super::Kind::Redis); })+
        }
    };
}

on_each_engine! {
    replicas_agree_and_newcomers_get_the_counts,
    a_killed_engine_stops_no_replica,
    a_frozen_engine_stops_no_replica,
    a_replica_that_was_cut_off_agrees_again,
    without_an_engine_a_replica_starts_alone_and_joins_later,
    credentials_stand_in_the_url,
}
