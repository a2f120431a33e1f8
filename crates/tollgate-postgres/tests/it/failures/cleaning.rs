//! Cleaning deletes expired states, and nothing else.

use std::cell::Cell;
use std::time::Duration;

use tollgate::shared::Guard;
use tollgate::{Algorithm, Clock, SystemClock};
use tollgate_postgres::Postgres;

use crate::client::{LONG, admitted, eventually, limiter, patient, run, session};
use crate::servers::Server;

async fn count(client: &tokio_postgres::Client, what: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM tollgate.{what}"), &[]).await.unwrap().get(0)
}

/// Makes existing rows look that much older.
const AGE: &str = "UPDATE tollgate.counters SET expires = expires - 3600000000::bigint * 3";

#[test]
fn cleaning_removes_expired_states_and_keeps_the_others() {
    run(async {
        let server = Server::start();
        let guard = Guard::builder().deadline(LONG);
        let builder = Postgres::builder(server.url()).clean_period(Duration::ZERO).guard(guard);
        let store = builder.connect().await.unwrap();
        let looking = session(&server.url()).await;
        let mut rows = 0;
        for algorithm in Algorithm::PERIODIC {
            for period in ["1 hour", "365 days"] {
                let limited = limiter(&store, &format!("5/{period} {algorithm}"));
                for key in 0..40 {
                    assert_eq!(admitted(&limited, &format!("key {key}"), 1).await, 1);
                    rows += 1;
                }
            }
        }
        assert_eq!((count(&looking, "counters").await, count(&looking, "log").await), (rows, 80));
        assert_eq!(store.clean().await.unwrap(), 0);
        looking.batch_execute(AGE).await.unwrap();
        // A fixed window of a year may end within these hours.
        let gone = store.clean().await.unwrap();
        assert!(gone >= 8 * 40, "{gone} of {rows}");
        let left = i64::try_from(gone).unwrap();
        assert_eq!(
            (count(&looking, "counters").await, count(&looking, "log").await),
            (rows - left, 40)
        );
        assert!(rows - left >= 7 * 40);
    });
}

#[test]
fn cleaning_runs_in_the_background_of_any_process() {
    run(async {
        let server = Server::start();
        let guard = Guard::builder().deadline(LONG);
        let builder =
            Postgres::builder(server.url()).clean_period(Duration::from_millis(20)).guard(guard);
        let store = builder.clone().connect().await.unwrap();
        let other = builder.connect().await.unwrap();
        let limited = limiter(&store, "1/hour");
        let keys: Vec<String> = (0..1_000).map(|n| format!("key {n}")).collect();
        let _ = limited.hit_each(&keys).await.unwrap();
        let looking = session(&server.url()).await;
        looking.batch_execute(AGE).await.unwrap();
        eventually("all are gone", || async { count(&looking, "counters").await == 0 }).await;
        drop(other);
    });
}

#[test]
fn cleaning_amid_hits_loses_none() {
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        // A bucket that becomes full again and again, so that its row is deleted and created
        // repeatedly; no charged unit may be lost.
        let limited = limiter(&store, "1000/second burst=1000000");
        let lasting = limiter(&store, "1000000/365 days");
        let (gone, done) = (Cell::new(0), Cell::new(false));
        let hits = async {
            let mut count = 0;
            while count < 300 || gone.get() == 0 {
                let _ = limited.hit("key").await.unwrap();
                assert!(lasting.hit("key").await.unwrap().allowed());
                count += 1;
            }
            done.set(true);
            count
        };
        let looking = session(&server.url()).await;
        let cleaning = async {
            while !done.get() {
                // Makes the refilled bucket look as if it had expired just now.
                let sql = "UPDATE tollgate.counters SET expires = 1 WHERE a < extract(epoch FROM clock_timestamp()) * 1000000 AND b = 0";
                looking.batch_execute(sql).await.unwrap();
                gone.set(gone.get() + store.clean().await.unwrap());
            }
        };
        let (count, ()) = tokio::join!(hits, cleaning);
        assert_eq!(lasting.usage("key").await.unwrap(), count);
    });
}

#[test]
fn entries_that_left_a_moving_window_are_deleted_in_slices() {
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        let limited = limiter(&store, "10000/hour moving-window");
        let looking = session(&server.url()).await;
        let mut at = SystemClock::new().now();
        for _ in 0..250 {
            at = at + Duration::from_millis(1);
            assert!(limited.at(at).hit("key").await.unwrap().allowed());
        }
        assert_eq!(count(&looking, "log").await, 250);
        for left in [151, 52, 1] {
            at = at + Duration::from_secs(7200);
            let hit = limited.at(at).hit("key").await.unwrap();
            assert_eq!((hit.used(), count(&looking, "log").await), (1, left));
        }
    });
}

#[test]
fn clearing_forgets_a_limit_or_a_namespace_and_no_other() {
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        let keys: Vec<String> = (0..500).map(|n| format!("key {n}")).collect();
        let long = "n".repeat(3_000);
        for namespace in ["a", "b", &long] {
            for limit in ["1/hour", "1/hour moving-window"] {
                let _ = store.limiter_in(namespace, limit).unwrap().hit_each(&keys).await.unwrap();
            }
        }
        let looking = session(&server.url()).await;
        assert_eq!(
            (count(&looking, "counters").await, count(&looking, "log").await),
            (3_000, 1_500)
        );
        store.limiter_in("a", "1/hour").unwrap().clear().await.unwrap();
        assert_eq!(
            (count(&looking, "counters").await, count(&looking, "log").await),
            (2_500, 1_500)
        );
        store.clear_namespace(&long).await.unwrap();
        assert_eq!(
            (count(&looking, "counters").await, count(&looking, "log").await),
            (1_500, 1_000)
        );
        store.clear_namespace("b").await.unwrap();
        assert_eq!((count(&looking, "counters").await, count(&looking, "log").await), (500, 500));
    });
}
