//! The number of statements, as the server counts calls of the function.

use tollgate::shared::hit_all_shared;
use tollgate::{Algorithm, Source};

use crate::client::{admitted, eventually, limiter, patient, run, session, stats};
use crate::servers::{Server, Shape};

/// A server that counts calls of functions.
fn server() -> Server {
    Server::shaped(&Shape { settings: vec!["track_functions=pl".into()], ..Shape::default() })
}

/// How often the functions that decide have been called.
const CALLS: &str = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE funcname IN ('ask', 'hits')";

/// Waits until the server has counted this many calls. It counts a call a little after it has
/// ended.
async fn calls(looking: &tokio_postgres::Client, calls: i64) {
    eventually(&format!("{calls} calls"), || async {
        looking.query_one(CALLS, &[]).await.unwrap().get::<_, i64>(0) == calls
    })
    .await;
}

#[test]
fn one_call_is_one_statement() {
    run(async {
        let server = server();
        let store = patient(server.url()).await;
        let looking = session(&server.url()).await;
        // `connect` sends one statement for each connection.
        let mut wanted = 2;
        for algorithm in Algorithm::PERIODIC {
            let limited = limiter(&store, &format!("100/365 days {algorithm}"));
            assert_eq!(admitted(&limited, "key", 5).await, 5);
            let keys: Vec<String> = (0..200).map(|n| format!("key {}", n % 150)).collect();
            assert!(limited.hit_each(&keys).await.unwrap().iter().all(tollgate::Decision::allowed));
            let items = [limited.item("one", 1), limited.item("two", 1)];
            assert!(hit_all_shared(&items, None).await.unwrap().allowed());
            assert!(limited.reset("key").await.unwrap());
            wanted += 5 + 3;
        }
        let policy = store.limiter("50/365 days; 60/364 days; 70/363 days").unwrap();
        assert!(policy.hit("key").await.unwrap().allowed());
        calls(&looking, wanted + 1).await;
    });
}

#[test]
fn hits_that_wait_at_the_same_time_go_together() {
    run(async {
        let server = server();
        let store = patient(server.url()).await;
        let limited = limiter(&store, "1000/365 days");
        // All calls are queued before the task of the store runs.
        let set = tokio::task::LocalSet::new();
        set.run_until(async {
            let hit = |_| {
                let limited = limited.clone();
                tokio::task::spawn_local(async move { limited.hit("key").await })
            };
            for hit in (0..64).map(hit).collect::<Vec<_>>() {
                assert!(hit.await.unwrap().unwrap().allowed());
            }
        })
        .await;
        let looking = session(&server.url()).await;
        let counted = || async { looking.query_one(CALLS, &[]).await.unwrap().get::<_, i64>(0) };
        eventually("calls are counted", || async { counted().await > 2 }).await;
        let calls = counted().await;
        assert!(calls <= 2 + 32, "{calls} calls for 64 hits");
        assert_eq!(limited.usage("key").await.unwrap(), 64);
    });
}

#[test]
fn a_denied_hot_key_costs_no_statement() {
    run(async {
        let server = server();
        let store = patient(server.url()).await;
        let limited = limiter(&store, "3/365 days");
        assert_eq!(admitted(&limited, "key", 4).await, 3);
        let before = stats(&store);
        for _ in 0..100 {
            let hit = limited.hit("key").await.unwrap();
            assert_eq!((hit.allowed(), hit.source()), (false, Source::DenialCache));
        }
        assert_eq!(stats(&store).remembered - before.remembered, 100);
        calls(&session(&server.url()).await, 2 + 4).await;
    });
}
