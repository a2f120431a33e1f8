//! Waits that are dropped.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate::shared::SharedLimiter;
use tollgate_redis::Redis;

use crate::client::{LONG, admitted, eventually, limiter, patient, run};
use crate::servers::{PATIENCE, Server};

/// Polls a wait until its hit is in flight, and drops it.
async fn drop_in_flight(limited: &SharedLimiter<Redis>, key: &str) {
    let mut wait = pin!(limited.wait(key, 2, LONG));
    for _ in 0..20 {
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending), "answered by a frozen server");
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_wait_dropped_with_a_request_in_flight_gives_its_charge_back() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in tollgate::Algorithm::PERIODIC {
            let limited = limiter(&store, &format!("5/365 days {algorithm}"));
            assert_eq!(admitted(&limited, "key", 1).await, 1);
            let before = server.calls("evalsha");
            server.freeze();
            drop_in_flight(&limited, "key").await;
            server.thaw();
            eventually("the hit and its refund have run", || async {
                server.calls("evalsha") >= before + 2
            })
            .await;
            assert_eq!(limited.usage("key").await.unwrap(), 1, "{algorithm}");
        }
    });
}

#[test]
fn a_wait_dropped_while_it_sleeps_takes_nothing() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "2/20 minutes");
        assert_eq!(admitted(&limited, "key", 2).await, 2);
        let waiting = tokio::spawn({
            let limited = limited.clone();
            async move { limited.wait("key", 1, PATIENCE * 100).await }
        });
        eventually("it has asked", || async { server.calls("evalsha") + server.calls("eval") > 2 })
            .await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(limited.usage("key").await.unwrap(), 2);
        let _ = limited.set("key", 0).await.unwrap();
        assert_eq!(admitted(&limited, "key", 3).await, 2);
    });
}

#[test]
fn a_wait_ends_with_the_turn_of_its_key() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "20/second burst=1");
        for _ in 0..5 {
            assert!(limited.wait("key", 1, PATIENCE).await.unwrap().allowed());
        }
        // The denial comes immediately when the wait would take too long.
        let hourly = limiter(&store, "1/hour");
        assert!(hourly.wait("key", 1, PATIENCE).await.unwrap().allowed());
        assert!(!hourly.wait("key", 1, PATIENCE).await.unwrap().allowed());
    });
}
