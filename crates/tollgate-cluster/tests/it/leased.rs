//! Leases with real threads and a real server.

use tollgate::Memory;
use tollgate::shared::{Guard, InProcess, SharedLimiter};
use tollgate_cluster::Leased;
use tollgate_redis::Redis;
use tollgate_testservers::Engine;
use tollgate_testservers::calls::{LONG, run};

/// Another node.
async fn node(redis: &Engine) -> Leased<Redis> {
    let guard = Guard::builder().deadline(LONG);
    let store = Redis::builder(redis.url()).guard(guard).connect().await.unwrap();
    Leased::builder(store).nodes(3).build()
}

async fn limiter(redis: &Engine, limit: &str) -> SharedLimiter<Leased<Redis>> {
    node(redis).await.limiter(limit).unwrap().deadline(LONG)
}

/// Concurrent callers on nodes that start without allotments: each is answered, and the limit is
/// used to the unit.
#[test]
fn callers_on_threads_are_all_answered_and_use_exactly_the_limit() {
    run(async {
        let redis = Engine::redis(&[]);
        for limit in ["20000/365 days fixed-window", "20000/365 days fixed-window-per-key"] {
            let mut callers = Vec::new();
            for _ in 0..3 {
                let limiter = limiter(&redis, limit).await;
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
            // Units that a node did not spend in time are given back after other callers were
            // denied.
            assert!((19_000..=20_000).contains(&passed), "{limit}: {passed}");
        }
    });
}

/// Several limits: all are charged or none is.
#[test]
fn several_limits_are_spent_together() {
    run(async {
        let redis = Engine::redis(&[]);
        let policy = "1000/365 days fixed-window; 300/365 days sliding-window";
        let limiter = node(&redis).await.limiter(policy).unwrap().deadline(LONG);
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

/// The charge of a hit can be given back: to the allotment while it lives, to the store afterwards.
#[test]
fn the_charge_of_a_hit_can_be_given_back() {
    run(async {
        let redis = Engine::redis(&[]);
        let one = limiter(&redis, "10/365 days fixed-window").await;
        let hit = one.hit_n("key", 10).await.unwrap();
        assert!(hit.allowed());
        assert!(!one.hit("key").await.unwrap().allowed());
        let _ = one.refund("key", &hit).await.unwrap();
        let other = limiter(&redis, "10/365 days fixed-window").await;
        assert!(other.hit_n("key", 10).await.unwrap().allowed());
    });
}

/// Requests that bring their own limits do the same: a limit without limiters and allotments is
/// forgotten here, so that the store behind can forget it too.
#[test]
fn limits_that_were_used_once_are_forgotten_here_and_behind() {
    run(async {
        let memory = Memory::new();
        let leased = Leased::builder(InProcess::new(memory.clone())).build();
        for number in 0..1_000 {
            let limiter = leased.limiter_in(&format!("tenant {number}"), "5/hour").unwrap();
            // Half of them get a state in the store, which is then forgotten.
            if number % 2 == 0 {
                limiter.set("key", 1).await.unwrap();
                limiter.reset("key").await.unwrap();
            }
        }
        memory.clean();
        assert!(memory.limits() <= 200, "{} limits", memory.limits());
    });
}
