//! Servers that are killed, frozen or out of reach, and the counts they lose.

use tollgate::ErrorKind;
use tollgate_postgres::{Postgres, Tables};

use tollgate_testservers::calls::Line;

use crate::client::{
    Rules, admitted, answers, eventually, hasty, hasty_guard, in_time, limiter, patient, run, stats,
};
use crate::servers::Server;

#[test]
fn a_crash_empties_unlogged_tables_and_a_clean_restart_does_not() {
    run(async {
        let mut server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "5/365 days");
        let moving = limiter(&store, "5/365 days moving-window");
        assert_eq!((admitted(&limited, "key", 3).await, admitted(&moving, "key", 3).await), (3, 3));
        server.stop();
        let error = in_time(limited.hit("key")).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        server.run();
        answers(&limited, "key").await;
        assert_eq!((admitted(&limited, "key", 1).await, admitted(&moving, "key", 1).await), (1, 1));
        assert_eq!(limited.usage("key").await.unwrap(), 4);
        server.kill();
        Rules::on(&store).hold_without_the_store("away").await;
        server.run();
        answers(&limited, "key").await;
        assert_eq!((admitted(&limited, "key", 9).await, admitted(&moving, "key", 9).await), (5, 5));
    });
}

#[test]
fn logged_tables_survive_a_crash() {
    run(async {
        let mut server = Server::start();
        let builder = Postgres::builder(server.url()).tables(Tables::Logged);
        let store = builder.guard(hasty_guard()).connect().await.unwrap();
        let limited = limiter(&store, "5/365 days");
        let moving = limiter(&store, "5/365 days moving-window");
        assert_eq!((admitted(&limited, "key", 3).await, admitted(&moving, "key", 3).await), (3, 3));
        server.kill();
        let _ = in_time(limited.hit("other")).await.unwrap_err();
        server.run();
        answers(&limited, "key").await;
        assert_eq!((admitted(&limited, "key", 9).await, admitted(&moving, "key", 9).await), (2, 2));
    });
}

#[test]
fn a_frozen_server_opens_the_breaker_and_a_thawed_one_closes_it() {
    run(async {
        let server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        server.freeze();
        eventually("the breaker opens", || async {
            stats(&store).opened > 0 || in_time(limited.hit("key")).await.is_ok()
        })
        .await;
        let lost = stats(&store).lost;
        assert!(lost > 0, "{:?}", stats(&store));
        Rules::on(&store).hold_without_the_store("away").await;
        server.thaw();
        answers(&limited, "key").await;
        eventually("the breaker closes", || async { stats(&store).closed > 0 }).await;
        // Calls that were executed late are charged, so fewer are left.
        let other = patient(server.url()).await;
        let used = limiter(&other, "20/365 days").usage("key").await.unwrap();
        assert!((5..=5 + lost).contains(&used), "{used} in use, 5 admitted and {lost} lost");
        assert!(admitted(&limited, "key", 25).await <= 20 - used);
    });
}

#[test]
fn a_silent_connection_is_replaced() {
    run(async {
        let server = Server::start();
        let line = Line::to(server.port);
        let store = hasty(format!("postgres://postgres@127.0.0.1:{}/postgres", line.port())).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        line.cut();
        let error = in_time(limited.hit("key")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        Rules::on(&store).hold_without_the_store("away").await;
        line.replace();
        answers(&limited, "key").await;
        assert!(admitted(&limited, "key", 25).await <= 15);
    });
}

#[test]
fn a_session_that_the_server_ends_is_replaced() {
    run(async {
        let server = Server::start();
        let store = hasty(server.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        let other = crate::client::session(&server.url()).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tollgate'";
        assert_eq!(other.query(end, &[]).await.unwrap().len(), 2, "two connections");
        answers(&limited, "key").await;
        assert_eq!(limited.usage("key").await.unwrap(), 5);
    });
}
