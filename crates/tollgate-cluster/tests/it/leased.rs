//! Allotments with real threads and a real server.

use std::net::TcpStream;

use tollgate::shared::{Guard, SharedLimiter};
use tollgate_cluster::Leased;
use tollgate_redis::Redis;
use tollgate_testkit::calls::{LONG, run};
use tollgate_testkit::servers::{Process, eventually, free_port};

struct Server {
    _process: Process,
    url: String,
}

impl Server {
    fn start() -> Server {
        let port = free_port();
        let mut process = Process::new("redis-server", "redis-server");
        process.start(|command| {
            command.args(["--save", "", "--bind", "127.0.0.1", "--port", &port.to_string()]);
        });
        eventually("Redis listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Server { _process: process, url: format!("redis://127.0.0.1:{port}/") }
    }

    /// Another node.
    async fn node(&self) -> Leased<Redis> {
        let guard = Guard::builder().deadline(LONG);
        let store = Redis::builder(&self.url[..]).guard(guard).connect().await.unwrap();
        Leased::builder(store).nodes(3).build()
    }

    async fn limiter(&self, limit: &str) -> SharedLimiter<Leased<Redis>> {
        self.node().await.limiter(limit).unwrap().deadline(LONG)
    }
}

/// Callers at once, of nodes that have none in hand at the beginning: each is answered, and the limit is used to the unit.
#[test]
fn callers_on_threads_are_all_answered_and_use_exactly_the_limit() {
    run(async {
        let server = Server::start();
        for limit in ["20000/365 days fixed-window", "20000/365 days fixed-window-per-key"] {
            let mut callers = Vec::new();
            for _ in 0..3 {
                let limiter = server.limiter(limit).await;
                callers.extend((0..16).map(|_| {
                    let limiter = limiter.clone();
                    tokio::spawn(async move {
                        let (mut passed, mut refused) = (0, 0);
                        while refused < 50 {
                            let hit = limiter.hit("key").await.unwrap();
                            *(if hit.allowed() { &mut passed } else { &mut refused }) += 1;
                        }
                        passed
                    })
                }));
            }
            let mut passed = 0;
            for caller in callers {
                passed += caller.await.unwrap();
            }
            // What a node was given and did not spend in time is given back after the others were refused.
            assert!((19_000..=20_000).contains(&passed), "{limit}: {passed}");
        }
    });
}

/// Several limits: all are charged or none is.
#[test]
fn several_limits_are_spent_together() {
    run(async {
        let server = Server::start();
        let policy = "1000/365 days fixed-window; 300/365 days sliding-window";
        let limiter = server.node().await.policy_limiter(policy).unwrap().deadline(LONG);
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    let mut passed = 0;
                    for _ in 0..100 {
                        passed += u64::from(limiter.hit("key").await.unwrap().allowed());
                    }
                    passed
                })
            })
            .collect();
        let mut passed = 0;
        for caller in callers {
            passed += caller.await.unwrap();
        }
        assert!((290..=300).contains(&passed), "{passed}");
    });
}

/// What a hit charged can be given back: to the allotment while it lives, to the store after.
#[test]
fn what_was_charged_is_given_back() {
    run(async {
        let server = Server::start();
        let limiter = server.limiter("10/365 days fixed-window").await;
        let hit = limiter.hit_n("key", 10).await.unwrap();
        assert!(hit.allowed());
        assert!(!limiter.hit("key").await.unwrap().allowed());
        let _ = limiter.refund("key", &hit.receipt()).await.unwrap();
        let other = server.limiter("10/365 days fixed-window").await;
        assert!(other.hit_n("key", 10).await.unwrap().allowed());
    });
}
