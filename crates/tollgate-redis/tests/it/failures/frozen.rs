//! A server that keeps its connections and does not respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::ErrorKind;
use tollgate::shared::{Guard, OnFailure};

use crate::client::{
    LONG, Rules, SHORT, admitted, answers, connect, eventually, hasty, in_time, limiter, patient,
    run, stats,
};
use crate::servers::Server;

#[test]
fn a_frozen_server_opens_the_breaker_and_a_thawed_one_closes_it() {
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        server.freeze();
        let mut lost = 0;
        eventually("the breaker opens", || async {
            stats(&store).opened > 0 || in_time(limited.hit("key")).await.is_ok()
        })
        .await;
        lost += stats(&store).lost;
        assert!(lost > 0, "{:?}", stats(&store));
        Rules::on(&store).hold_without_the_store("away").await;
        eventually("calls are not even sent", || async {
            let _ = in_time(limited.hit("other")).await;
            stats(&store).skipped > 0
        })
        .await;
        server.thaw();
        answers(&limited, "key").await;
        eventually("the breaker closes", || async { stats(&store).closed > 0 }).await;
        // Calls that were executed late count: exactly the rest passes.
        let before = patient(server.url()).await;
        let used = limiter(&before, "20/365 days").usage("key").await.unwrap();
        assert!((5..=5 + lost).contains(&used), "{used} in use, 5 admitted and {lost} lost");
        let more = admitted(&limited, "key", 25).await;
        assert!(more <= 20 - used, "{more} more passed after {used} of 20");
    });
}

#[test]
fn a_hit_that_ran_late_is_an_error_and_is_counted() {
    run(async {
        let server = Server::start(&[]);
        // A breaker that stays closed, so that the connection stays.
        let guard = Guard::builder().deadline(SHORT).open_after(1_000_000);
        let store = connect(server.url(), guard).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.freeze();
        for _ in 0..3 {
            let error = in_time(limited.hit("key")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        }
        server.thaw();
        eventually("the late hits are counted", || async {
            limited.within(LONG).usage("key").await.unwrap() == 4
        })
        .await;
        assert_eq!(admitted(&limited, "key", 20).await, 16);
    });
}

#[test]
fn callers_on_a_server_that_freezes_again_and_again_never_pass_the_limit() {
    const LIMIT: &str = "300/365 days";
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let ended = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let (limited, ended) = (limiter(&store, LIMIT), Arc::clone(&ended));
                tokio::spawn(async move {
                    let mut passed = 0;
                    while !ended.load(Ordering::Relaxed) {
                        let hit = in_time(limited.hit("key")).await;
                        passed += u64::from(hit.is_ok_and(|hit| hit.allowed()));
                        tokio::task::yield_now().await;
                    }
                    passed
                })
            })
            .collect();
        for _ in 0..3 {
            let answered = stats(&store).answered;
            eventually("some are answered", || async { stats(&store).answered > answered }).await;
            let lost = stats(&store).lost;
            server.freeze();
            eventually("some are lost", || async { stats(&store).lost > lost }).await;
            server.thaw();
        }
        answers(&limiter(&store, LIMIT), "other").await;
        ended.store(true, Ordering::Relaxed);
        let mut passed = 0;
        for caller in callers {
            passed += caller.await.unwrap();
        }
        let other = patient(server.url()).await;
        let limited = limiter(&other, LIMIT);
        passed += admitted(&limited, "key", 310).await;
        assert!(passed <= 300, "{passed} passed");
        assert_eq!(limited.usage("key").await.unwrap(), 300);
    });
}

#[test]
fn calls_without_a_caller_deadline_end_too() {
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.freeze();
        assert!(in_time(limited.check()).await.is_err());
        assert!(in_time(limited.clear()).await.is_err());
        assert!(in_time(store.clear_namespace("")).await.is_err());
        assert!(in_time(limited.reset("key")).await.is_err());
        server.thaw();
        answers(&limited, "key").await;
        limited.clear().await.unwrap();
        assert_eq!(limited.within(LONG).usage("key").await.unwrap(), 0);
    });
}

#[test]
fn a_patient_caller_ends_with_the_connection_and_delays_nobody() {
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.freeze();
        let waiting = limited.clone();
        let waits = tokio::spawn(async move { waiting.within(100 * LONG).hit("key").await });
        eventually("the breaker opens", || async {
            stats(&store).opened > 0 || in_time(limited.hit("key")).await.is_ok()
        })
        .await;
        // Then a ping finds that the connection is dead.
        let error = in_time(waits).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        server.thaw();
        answers(&limited, "key").await;
    });
}

#[test]
fn a_wait_on_a_frozen_server_ends() {
    run(async {
        let server = Server::start(&[]);
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "1/365 days");
        server.freeze();
        // No server answers, so the wait ends as the rule of the limiter says: with an error, with
        // an admitted hit, or with a denial when the time is over.
        assert!(in_time(limited.wait("key", 1, LONG)).await.is_err());
        let open = limited.clone().on_failure(OnFailure::Open).unwrap();
        assert!(in_time(open.wait("key", 1, LONG)).await.unwrap().allowed());
        let closed = limited.clone().on_failure(OnFailure::Closed).unwrap();
        assert!(!in_time(closed.wait("key", 1, SHORT)).await.unwrap().allowed());
        server.thaw();
    });
}
