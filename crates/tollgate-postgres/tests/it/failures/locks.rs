//! Rows and tables that another session holds, and batches with the same rows.

use std::time::Duration;

use tollgate::shared::{Guard, hit_all_shared};

use crate::client::{LONG, admitted, connect, eventually, in_time, limiter, patient, run, session};
use crate::servers::Server;

#[test]
fn a_row_that_another_session_holds_fails_only_its_own_callers() {
    run(async {
        let server = Server::start();
        let guard = Guard::builder().deadline(Duration::from_secs(2)).open_after(1_000_000);
        let store = connect(server.url(), guard).await;
        let limited = limiter(&store, "1000/365 days");
        assert_eq!(admitted(&limited, "held", 1).await + admitted(&limited, "free", 1).await, 2);
        let holder = session(&server.url()).await;
        let key = store.key_of("", "1000/365 days", "held").unwrap();
        holder.batch_execute("BEGIN").await.unwrap();
        let lock = "SELECT FROM tollgate.counters WHERE key = $1 FOR UPDATE";
        assert_eq!(holder.query(lock, &[&key]).await.unwrap().len(), 1);
        // All in one batch: the calls about the locked row must fail, the others must not.
        let calls = (0..32).map(|n| {
            let limited = limited.clone();
            let key = if n % 8 == 0 { "held" } else { "free" };
            tokio::spawn(async move { (key, in_time(limited.hit(key)).await) })
        });
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                ("held", hit) => assert!(hit.is_err(), "{hit:?} while the row is held"),
                (_, hit) => assert!(hit.unwrap().allowed()),
            }
        }
        // A group with the row is not decided, nor charged in part.
        let group = [limited.item("held", 1), limited.item("fresh", 1)];
        assert!(in_time(hit_all_shared(&group, None)).await.is_err());
        assert_eq!(limited.usage("fresh").await.unwrap(), 0);
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert!(limited.within(LONG).hit("held").await.unwrap().allowed());
        assert_eq!(limited.within(LONG).usage("held").await.unwrap(), 2, "nothing ran late");
        assert_eq!(limited.within(LONG).usage("free").await.unwrap(), 29);
    });
}

#[test]
fn a_call_that_waits_for_a_row_is_decided() {
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        let limited = limiter(&store, "1000/365 days");
        assert_eq!(admitted(&limited, "held", 1).await, 1);
        let holder = session(&server.url()).await;
        holder.batch_execute("BEGIN; UPDATE tollgate.counters SET b = b").await.unwrap();
        let waiting = tokio::spawn({
            let limited = limited.clone();
            async move { limited.hit("held").await }
        });
        let waits = "SELECT FROM pg_stat_activity WHERE application_name = 'tollgate' AND wait_event_type = 'Lock'";
        let looking = session(&server.url()).await;
        eventually("it waits", || async { !looking.query(waits, &[]).await.unwrap().is_empty() })
            .await;
        holder.batch_execute("COMMIT").await.unwrap();
        assert!(waiting.await.unwrap().unwrap().allowed());
        assert_eq!(limited.usage("held").await.unwrap(), 2);
    });
}

#[test]
fn a_locked_table_is_an_error_in_time_and_leaves_no_statement_behind() {
    run(async {
        let server = Server::start();
        let store =
            connect(server.url(), Guard::builder().deadline(Duration::from_millis(100))).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        let holder = session(&server.url()).await;
        holder
            .batch_execute("BEGIN; LOCK TABLE tollgate.counters IN ACCESS EXCLUSIVE MODE")
            .await
            .unwrap();
        assert!(in_time(limited.hit("key")).await.is_err());
        let looking = session(&server.url()).await;
        let active =
            "SELECT FROM pg_stat_activity WHERE application_name = 'tollgate' AND state = 'active'";
        eventually("nothing waits any more", || async {
            looking.query(active, &[]).await.unwrap().is_empty()
        })
        .await;
        holder.batch_execute("ROLLBACK").await.unwrap();
        crate::client::answers(&limited, "key").await;
        assert_eq!(limited.within(LONG).usage("key").await.unwrap(), 1);
    });
}

#[test]
fn batches_with_the_same_keys_in_opposite_orders_never_wait_for_each_other() {
    run(async {
        let server = Server::start();
        let keys: Vec<String> = (0..24).map(|n| format!("key {n}")).collect();
        let mut tasks = Vec::new();
        for turn in 0..4 {
            let store = patient(server.url()).await;
            let mut keys = keys.clone();
            if turn % 2 == 1 {
                keys.reverse();
            }
            tasks.push(tokio::spawn(async move {
                let limited = limiter(&store, "1000000/365 days");
                for round in 0..40 {
                    // Some of the keys are new in each round, some are forgotten again.
                    let mut all: Vec<String> =
                        keys.iter().map(|key| format!("{key} {}", round % 5)).collect();
                    all.rotate_left(round % 3);
                    let _ = limited.hit_each(&all).await.unwrap();
                    let items = all.iter().map(|key| limited.item(&key[..], 1));
                    assert!(
                        hit_all_shared(&items.collect::<Vec<_>>(), None).await.unwrap().allowed()
                    );
                    if turn == 0 && round % 4 == 3 {
                        let _ = limited.reset(&all[0][..]).await.unwrap();
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let looking = session(&server.url()).await;
        eventually("the server has counted", || async {
            looking.query("SELECT pg_stat_clear_snapshot()", &[]).await.is_ok()
        })
        .await;
        let deadlocks =
            looking.query_one("SELECT sum(deadlocks)::bigint FROM pg_stat_database", &[]).await;
        assert_eq!(deadlocks.unwrap().get::<_, i64>(0), 0);
    });
}
