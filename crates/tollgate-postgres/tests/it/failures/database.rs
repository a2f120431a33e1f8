//! Servers that answer, but are not set up as expected.

use tollgate::ErrorKind;
use tollgate::shared::Guard;
use tollgate_postgres::{Postgres, Tables, schema};

use crate::client::{
    LONG, Rules, admitted, answers, eventually, hasty, hasty_guard, in_time, limiter, patient, run,
    session,
};
use crate::servers::{Server, Shape};

async fn refused(url: String) -> tollgate::Error {
    let connected = Postgres::builder(url).connect_timeout(LONG).connect().await;
    connected.map(drop).unwrap_err()
}

#[test]
fn wrong_passwords_and_missing_databases_are_permanent_errors() {
    run(async {
        let access =
            "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        let server = Server::shaped(&Shape { access: Some(access.into()), ..Shape::default() });
        let admin = session(&server.url()).await;
        admin.batch_execute("CREATE ROLE alice LOGIN PASSWORD 'open sesame'; GRANT CREATE ON DATABASE postgres TO alice").await.unwrap();
        for (user, code) in [("alice:wrong", "28P01"), ("bob:open%20sesame", "28P01")] {
            let error = refused(server.url_for(user, "postgres")).await;
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
            assert!(
                error.to_string().contains(code) && !error.to_string().contains("sesame"),
                "{error}"
            );
        }
        let error = refused(server.url_for("alice:open%20sesame", "nowhere")).await;
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
        let store = patient(server.url_for("alice:open%20sesame", "postgres")).await;
        assert_eq!(admitted(&limiter(&store, "1/hour"), "key", 2).await, 1);
    });
}

#[test]
fn missing_rights_are_named_and_granted_ones_are_enough() {
    run(async {
        let server = Server::start();
        let admin = session(&server.url()).await;
        admin.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
        let url = server.url_for("app", "postgres");
        let error = refused(url.clone()).await;
        assert_eq!(error.kind(), ErrorKind::Store);
        assert!(error.to_string().contains("permission denied"), "{error}");
        // Another user owns everything, as after a migration.
        admin.batch_execute(&schema("tollgate", Tables::Logged).unwrap()).await.unwrap();
        let error = refused(url.clone()).await;
        assert!(error.to_string().contains("permission denied"), "{error}");
        let grants = "GRANT USAGE ON SCHEMA tollgate TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tollgate TO app";
        admin.batch_execute(grants).await.unwrap();
        let builder = Postgres::builder(url).create(false).connect_timeout(LONG);
        let builder = builder.guard(Guard::builder().deadline(LONG));
        let store = builder.connect().await.unwrap();
        let limited = limiter(&store, "3/hour moving-window");
        assert_eq!(admitted(&limited, "key", 5).await, 3);
        assert_eq!(store.clean().await.unwrap(), 0);
        limited.clear().await.unwrap();
        assert_eq!(limited.usage("key").await.unwrap(), 0);
    });
}

#[test]
fn a_missing_schema_is_created_or_named_in_the_error() {
    run(async {
        let server = Server::start();
        let builder = Postgres::builder(server.url()).create(false).connect_timeout(LONG);
        let error = builder.connect().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert!(error.to_string().contains("schema tollgate is missing"), "{error}");
        // All at the same time, in two schemas: none fails because another one was faster.
        let connect = |n: usize| {
            let builder = Postgres::builder(server.url()).schema(["one", "two"][n % 2]);
            let builder = builder.guard(Guard::builder().deadline(LONG));
            tokio::spawn(builder.connect_timeout(LONG).connect())
        };
        let mut admitted_in_all = 0;
        for connected in (0..6).map(connect).collect::<Vec<_>>() {
            let store = connected.await.unwrap().unwrap();
            admitted_in_all += admitted(&limiter(&store, "1/365 days"), "key", 2).await;
        }
        assert_eq!(admitted_in_all, 2, "one in each schema");
    });
}

#[test]
fn dropped_tables_are_an_error_and_then_created_again() {
    run(async {
        let server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 3).await, 3);
        session(&server.url()).await.batch_execute("DROP SCHEMA tollgate CASCADE").await.unwrap();
        let error = in_time(limited.hit("key")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 9).await, 5);
    });
}

#[test]
fn a_dropped_table_is_created_again() {
    run(async {
        let server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 3).await, 3);
        session(&server.url()).await.batch_execute("DROP TABLE tollgate.counters").await.unwrap();
        assert!(in_time(limited.hit("key")).await.is_err());
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 9).await, 5);
        // A process that starts now finds it too.
        patient(server.url()).await;
    });
}

#[test]
fn a_table_that_cannot_be_restored_causes_few_connections() {
    run(async {
        let server = Server::start();
        let admin = session(&server.url()).await;
        admin.batch_execute(&schema("tollgate", Tables::Logged).unwrap()).await.unwrap();
        let builder = Postgres::builder(server.url()).create(false).connect_timeout(LONG);
        let store = builder.guard(hasty_guard()).connect().await.unwrap();
        let limited = limiter(&store, "5/365 days");
        let opened = async || {
            let sql = "SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'";
            let _ = admin.query("SELECT pg_stat_clear_snapshot()", &[]).await;
            admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
        };
        // A missing function is found only by a statement that calls it.
        let rename = "ALTER FUNCTION tollgate.hits RENAME TO gone";
        admin.batch_execute(rename).await.unwrap();
        let before = opened().await;
        let begin = std::time::Duration::from_secs(2);
        let storm = async {
            loop {
                let _ = in_time(limited.hit("key")).await;
                tokio::task::yield_now().await;
            }
        };
        let _ = tokio::time::timeout(begin, storm).await;
        let error = in_time(limited.hit("key")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        let connections = opened().await - before;
        assert!(connections < 20, "{connections} connections in {begin:?}");
        admin.batch_execute("ALTER FUNCTION tollgate.gone RENAME TO hits").await.unwrap();
        eventually("hits are decided again", || async {
            in_time(limited.hit("key")).await.is_ok()
        })
        .await;
    });
}

#[test]
fn a_newer_schema_is_refused_when_connecting_and_later() {
    run(async {
        let server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 3).await, 3);
        let admin = session(&server.url()).await;
        let newer = schema("tollgate", Tables::Unlogged).unwrap();
        let newer = newer.split_once("CREATE FUNCTION tollgate.ask").unwrap().1;
        let newer = newer.split_once("CREATE FUNCTION tollgate.clean").unwrap().0;
        let newer = format!("CREATE FUNCTION tollgate.ask{newer}")
            .replace("IF version <> 2", "IF version <> 3")
            .replace("has version 2", "has version 3")
            .replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION");
        let newer = format!("UPDATE tollgate.meta SET version = 3; {newer}");
        // The rest is the comment of the next function.
        admin.batch_execute(&newer).await.unwrap();
        let [hit, peek] = [limited.hit("key").await, limited.peek("key").await];
        for error in [hit.unwrap_err(), peek.unwrap_err(), refused(server.url()).await] {
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
            assert!(error.to_string().contains("version 3"), "{error}");
        }
    });
}

#[test]
fn a_read_only_server_is_unavailable_until_it_accepts_writes() {
    run(async {
        let server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 3).await, 3);
        let admin = session(&server.url()).await;
        let set = |on: &str| format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
        admin.batch_execute(&set("on")).await.unwrap();
        admin.query("SELECT pg_reload_conf()", &[]).await.unwrap();
        eventually("calls are refused", || async {
            in_time(limited.peek("key")).await.is_err_and(|e| e.kind() == ErrorKind::Unavailable)
        })
        .await;
        Rules::on(&store).hold_without_the_store("away").await;
        admin.batch_execute("SET default_transaction_read_only = off").await.unwrap();
        admin.batch_execute(&set("off")).await.unwrap();
        admin.query("SELECT pg_reload_conf()", &[]).await.unwrap();
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 9).await, 2);
    });
}

#[test]
fn a_server_without_free_connections_is_unavailable() {
    run(async {
        let settings = ["max_connections=5", "superuser_reserved_connections=1"];
        let settings = settings.iter().map(ToString::to_string).collect();
        let server = Server::shaped(&Shape { settings, ..Shape::default() });
        let admin = session(&server.url()).await;
        admin
            .batch_execute("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app")
            .await
            .unwrap();
        let url = server.url_for("app", "postgres");
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(session(&url).await);
        }
        let error = refused(url.clone()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let store = Postgres::builder(url).guard(hasty_guard()).connect_later().unwrap();
        let limited = limiter(&store, "5/365 days");
        assert!(in_time(limited.hit("key")).await.is_err());
        drop(others);
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 9).await, 5);
    });
}

#[test]
fn a_full_disk_refuses_new_keys_and_decides_about_old_ones() {
    run(async {
        let shape = Shape { largest_file: Some(2 << 20), ..Shape::default() };
        let server = Server::shaped(&shape);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 3).await, 3);
        let mut full = None;
        for n in 0..200 {
            let keys: Vec<String> = (0..200).map(|key| format!("key {n} {key}")).collect();
            if let Err(error) = limited.hit_each(&keys).await {
                full = Some(error);
                break;
            }
        }
        let error = full.expect("a table of more than two megabytes");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(admitted(&limited, "key", 9).await, 2);
    });
}

#[test]
fn a_row_that_is_not_a_state_fails_only_its_own_callers() {
    run(async {
        let server = Server::start();
        let store = patient(server.url()).await;
        let all = [
            "5/365 days",
            "5/365 days fixed-window",
            "5/365 days sliding-window",
            "5/365 days token-bucket",
        ];
        for limit in all {
            let limited = limiter(&store, limit);
            assert_eq!(admitted(&limited, "bad", 1).await + admitted(&limited, "good", 1).await, 2);
            let key = store.key_of("", limit, "bad").unwrap();
            let spoil = "UPDATE tollgate.counters SET a = $2, b = $2, c = $2 WHERE key = $1";
            for value in [-1_i64, i64::MAX, i64::MAX / 2] {
                let admin = session(&server.url()).await;
                assert_eq!(admin.execute(spoil, &[&key, &value]).await.unwrap(), 1);
                let (bad, good) = tokio::join!(limited.hit("bad"), limited.peek("good"));
                assert!(good.unwrap().allowed(), "{limit} {value}");
                // Values that could be a state of a far future are accepted.
                assert!(
                    bad.is_err_and(|error| error.kind() == ErrorKind::Store)
                        || value == i64::MAX / 2,
                    "{limit} {value}"
                );
            }
            assert!(limited.reset("good").await.unwrap());
        }
    });
}
