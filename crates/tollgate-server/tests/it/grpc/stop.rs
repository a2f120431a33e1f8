//! The binary is told to stop while it is asked.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use tollgate_testkit::servers::{Process, eventually, free_port};

const LIMIT: u32 = 1_000_000_000;

fn start(store: u16, grpc: u16) -> Process {
    let mut tollgate = Process::new(env!("CARGO_BIN_EXE_tollgate"), "tollgate");
    // What is asked too late may have been charged: here nothing is too late.
    let config = tollgate.dir().join("tollgate.toml");
    std::fs::write(&config, "[store]\ndeadline = \"30s\"\n").unwrap();
    tollgate.start(|command| {
        command.args(["serve", "--http", "off", "--resp", "off", "--admin", "off"]);
        command.args(["--grpc", &format!("127.0.0.1:{grpc}")]);
        command.args(["--store", &format!("redis://127.0.0.1:{store}"), "--config"]).arg(&config);
    });
    let listens = || std::net::TcpStream::connect(("127.0.0.1", grpc)).is_ok();
    eventually("it listens", listens);
    tollgate
}

fn asks(grpc: u16) -> tonic::client::Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{grpc}")).unwrap();
    tonic::client::Grpc::new(endpoint.connect_lazy())
}

/// What is charged is in the store, and outlives the server.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_charged_was_answered() {
    let (store, grpc) = (free_port(), free_port());
    let mut redis = Process::new("redis-server", "redis-server");
    redis.start(|command| {
        command.args(["--port", &store.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    });
    let listens = || std::net::TcpStream::connect(("127.0.0.1", store)).is_ok();
    eventually("the store listens", listens);
    let mut tollgate = start(store, grpc);
    let user = || overridden(LIMIT, Unit::Year, on([("user", "a")]));

    let answered = Arc::new(AtomicU32::new(0));
    let (drain, _) = Drain::new();
    let serves = Arc::new(drain);
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let asks = asks(grpc);
        for _ in 0..4 {
            let (answered, serves) = (Arc::clone(&answered), Arc::clone(&serves));
            let mut client = Client { asks: asks.clone(), _serves: serves };
            askers.spawn(async move {
                let mut all = 0;
                while client.try_ask([user()]).await.is_ok() {
                    answered.fetch_add(1, Ordering::Relaxed);
                    all += 1;
                }
                all
            });
        }
    }
    let asked = Arc::clone(&answered);
    let stopped = tokio::task::spawn_blocking(move || {
        eventually("they are many", || asked.load(Ordering::Relaxed) > 1_000);
        tollgate.signal("TERM");
        eventually("it ends", || tollgate.ended().is_some_and(|status| status.success()));
    });
    let each = askers.join_all().await;
    stopped.await.unwrap();
    assert!(each.iter().all(|count| *count > 0), "all had their turn: {each:?}");

    let again = free_port();
    let _tollgate = start(store, again);
    let mut client = Client { asks: asks(again), _serves: serves };
    let (_, left) = client.left(cost(0, user())).await;
    assert_eq!(LIMIT - left, answered.load(Ordering::Relaxed));
}
