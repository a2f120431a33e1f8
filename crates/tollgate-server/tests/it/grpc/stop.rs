//! Stops the binary under load.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::server::Server as Tollgate;
use tollgate_testservers::{Engine, eventually};

const LIMIT: u32 = 1_000_000_000;

/// A call that ends after its deadline may have been charged, so deadlines are long here.
fn start(store: &Engine) -> Tollgate {
    Tollgate::with("[store]\ndeadline = \"30s\"\n", &["--store", &store.url()], |_| {})
}

fn asks(grpc: SocketAddr) -> tonic::client::Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
    tonic::client::Grpc::new(endpoint.connect_lazy())
}

/// Charged units are in the store, which outlives the server.
#[tokio::test(flavor = "multi_thread")]
async fn charged_requests_were_answered() {
    let store = Engine::redis(&[]);
    let mut tollgate = start(&store);
    let grpc = tollgate.grpc;
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
        tollgate.process.signal("TERM");
        assert_eq!(tollgate.code(), Some(0));
    });
    let each = askers.join_all().await;
    stopped.await.unwrap();
    assert!(each.iter().all(|count| *count > 0), "all had their turn: {each:?}");

    let again = start(&store);
    let mut client = Client { asks: asks(again.grpc), _serves: serves };
    let (_, left) = client.left(cost(0, user())).await;
    assert_eq!(LIMIT - left, answered.load(Ordering::Relaxed));
}
