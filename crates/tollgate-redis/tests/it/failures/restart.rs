//! A server that is killed, comes back, or was not running: its scripts and states are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate::Source;
use tollgate_redis::Redis;

use crate::client::{
    LONG, Rules, admitted, answers, connect, eventually, hasty, hasty_guard, in_time, limiter,
    patient, run, stats,
};
use crate::servers::{Server, free_port};

const LIMIT: &str = "3/365 days";

#[test]
fn a_killed_server_is_used_again_when_it_is_back() {
    run(async {
        let mut server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "before", 5).await, 3);
        server.kill();
        Rules::on(&store).hold_without_the_store("away").await;
        server.restart();
        answers(&limited, "after").await;
        // Exactly the limit passes, and the script had to be sent again.
        assert_eq!(admitted(&limited, "after", 5).await, 3);
        assert!(server.calls("eval") > 0, "the new server has never seen the script");
        assert!(stats(&store).closed > 0 || stats(&store).opened == 0, "{:?}", stats(&store));
        // The server has lost its state: another process gets the whole limit again.
        let other = patient(server.url()).await;
        assert_eq!(admitted(&limiter(&other, LIMIT), "before", 5).await, 3);
    });
}

#[test]
fn hits_while_a_server_is_killed_and_restarted_never_admit_more_than_the_limit_of_each_life() {
    run(async {
        let mut server = Server::start(&[]);
        let store = connect(server.url(), hasty_guard().remember_denials(0)).await;
        let (passed, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let limited = limiter(&store, "50/365 days");
                let (passed, ended) = (Arc::clone(&passed), Arc::clone(&ended));
                tokio::spawn(async move {
                    while !ended.load(Ordering::Relaxed) {
                        if let Ok(hit) = in_time(limited.hit("key")).await {
                            assert_ne!(hit.source(), Source::Fallback);
                            passed.fetch_add(u64::from(hit.allowed()), Ordering::Relaxed);
                        }
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        let passed_at_least = |least: u64| {
            let passed = Arc::clone(&passed);
            async move {
                eventually("hits pass", || async { passed.load(Ordering::Relaxed) >= least }).await;
            }
        };
        passed_at_least(20).await;
        server.kill();
        let first_life = passed.load(Ordering::Relaxed);
        server.restart();
        passed_at_least(first_life + 1).await;
        let limited = limiter(&store, "50/365 days");
        answers(&limited, "other").await;
        ended.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
        // Calls in flight when the server died were answered or lost before its state was.
        let all = passed.load(Ordering::Relaxed);
        assert!(all <= 2 * 50, "{all} passed in two lives of 50");
        let other = patient(server.url()).await;
        let used = limiter(&other, "50/365 days").usage("key").await.unwrap();
        assert!(used <= 50, "{used} of 50 in use");
    });
}

#[test]
fn a_server_restarted_between_calls_is_used_again() {
    run(async {
        let mut server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.restart();
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 5).await, 3);
    });
}

#[test]
fn a_store_that_connects_later_works_as_soon_as_there_is_a_server() {
    run(async {
        let port = free_port();
        let url = format!("redis://127.0.0.1:{port}/");
        let store = Redis::builder(url).guard(hasty_guard()).connect_later().unwrap();
        Rules::on(&store).hold_without_the_store("key").await;
        let _server = Server::start_at(port);
        let limited = limiter(&store, LIMIT);
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 5).await, 3);
    });
}

#[test]
fn a_store_that_connects_later_reaches_a_running_server_with_the_first_call() {
    run(async {
        let server = Server::start(&[]);
        let guard = hasty_guard().deadline(LONG);
        let store = Redis::builder(server.url()).guard(guard).connect_later().unwrap();
        assert_eq!(admitted(&limiter(&store, LIMIT), "key", 5).await, 3);
    });
}

#[test]
fn scripts_that_are_flushed_are_sent_again_with_the_same_hit() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "10/365 days");
        let mut passed = 0;
        for _ in 0..15 {
            server.ok(&["SCRIPT", "FLUSH"]);
            passed += admitted(&limited, "key", 1).await;
        }
        assert_eq!(passed, 10);
        assert_eq!(
            (stats(&store).lost, stats(&store).unavailable, stats(&store).refused),
            (0, 0, 0)
        );
    });
}

#[test]
fn the_script_is_sent_once_for_all_calls_in_flight() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "1000/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        for round in 1..=3 {
            server.ok(&["SCRIPT", "FLUSH"]);
            server.ok(&["CONFIG", "RESETSTAT"]);
            let hits: Vec<_> = (0..300)
                .map(|_| {
                    let limited = limited.clone();
                    tokio::spawn(async move { limited.hit("key").await })
                })
                .collect();
            for hit in hits {
                assert!(hit.await.unwrap().unwrap().allowed());
            }
            assert_eq!(server.calls("eval"), 1, "round {round}");
            assert_eq!(limited.usage("key").await.unwrap(), 1 + 300 * round);
        }
        assert_eq!((stats(&store).lost, stats(&store).unavailable), (0, 0));
    });
}

#[test]
fn flushed_states_start_fresh() {
    run(async {
        let server = Server::start(&[]);
        let store = connect_without_memory(&server).await;
        let limited = limiter(&store, LIMIT);
        for _ in 0..3 {
            assert_eq!(admitted(&limited, "key", 5).await, 3);
            server.ok(&["FLUSHALL"]);
        }
    });
}

/// A store that remembers no denials. Otherwise a state removed by another program would only be
/// noticed when its denial ends.
async fn connect_without_memory(server: &Server) -> Redis {
    let guard = hasty_guard().deadline(LONG).remember_denials(0);
    connect(server.url(), guard).await
}
