//! A primary behind sentinels is killed, frozen or demoted.

use tollgate::ErrorKind;

use crate::client::{
    Rules, admitted, answers, eventually, fails_by_the_store, hasty, in_time, limiter, run,
};
use crate::servers::{NAME, Sentinels, Server};

const LIMIT: &str = "10/365 days";

fn is_primary(server: &Server) -> bool {
    server.cli(&["ROLE"]).starts_with("master")
}

#[test]
fn after_a_primary_is_killed_the_new_one_continues_the_counts() {
    run(async {
        let mut all = Sentinels::start();
        let store = hasty(all.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 4).await, 4);
        all.replicate();
        all.servers[0].kill();
        Rules::on(&store).hold_without_the_store("away").await;
        answers(&limited, "key").await;
        assert!(is_primary(&all.servers[1]));
        assert_eq!(admitted(&limited, "key", 10).await, 6);
    });
}

#[test]
fn after_a_primary_is_frozen_the_new_one_continues_the_counts() {
    run(async {
        let all = Sentinels::start();
        let store = hasty(all.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 4).await, 4);
        all.replicate();
        all.servers[0].freeze();
        Rules::on(&store).hold_without_the_store("away").await;
        answers(&limited, "other").await;
        assert!(is_primary(&all.servers[1]));
        // The new primary does not have what was sent to the frozen one.
        assert_eq!(admitted(&limited, "key", 10).await, 6);
        all.servers[0].thaw();
    });
}

#[test]
fn a_planned_failover_is_followed() {
    run(async {
        let all = Sentinels::start();
        let store = hasty(all.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 4).await, 4);
        all.replicate();
        all.sentinels[0].ok(&["SENTINEL", "FAILOVER", NAME]);
        eventually("the roles have changed", || async {
            // Calls go on meanwhile. Whichever server answers, never more than the limit is
            // admitted.
            let _ = in_time(limited.peek("key")).await;
            is_primary(&all.servers[1]) && !is_primary(&all.servers[0])
        })
        .await;
        eventually("the new primary answers", || async {
            in_time(limited.hit_n("other", 1)).await.is_ok()
        })
        .await;
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 10).await, 6);
    });
}

#[test]
fn connections_to_a_demoted_primary_are_given_up() {
    run(async {
        // The test tells the single sentinel which server is the primary.
        let all = Sentinels::start_with(1, 1);
        let (sentinel, old, new) = (&all.sentinels[0], &all.servers[0], &all.servers[1]);
        let store = hasty(all.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 4).await, 4);
        all.replicate();
        sentinel.ok(&["SENTINEL", "REMOVE", NAME]);
        new.ok(&["REPLICAOF", "NO", "ONE"]);
        old.ok(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]);
        // It rejects writes, and the client does not know the new primary yet.
        let error = fails_by_the_store(in_time(limited.hit("key")).await);
        assert_ne!(error.kind(), ErrorKind::Store, "{error}");
        Rules::on(&store).hold_without_the_store("away").await;
        sentinel.ok(&["SENTINEL", "MONITOR", NAME, "127.0.0.1", &new.port.to_string(), "1"]);
        eventually("the new primary answers", || async {
            in_time(limited.hit("other")).await.is_ok()
        })
        .await;
        assert_eq!(admitted(&limited, "key", 10).await, 6);
        assert!(is_primary(new) && !is_primary(old));
    });
}

#[test]
fn a_server_that_becomes_a_replica_gives_errors_until_it_is_a_primary_again() {
    run(async {
        let (server, other) = (Server::start(&[]), Server::start(&[]));
        let store = hasty(server.url()).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.ok(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
        Rules::on(&store).hold_without_the_store("away").await;
        server.ok(&["REPLICAOF", "NO", "ONE"]);
        eventually("it counts again", || async { in_time(limited.hit("x")).await.is_ok() }).await;
        assert!(admitted(&limited, "key", 20).await <= 10);
    });
}

#[test]
fn a_stopped_or_silent_sentinel_is_skipped() {
    run(async {
        let mut all = Sentinels::start();
        all.sentinels[0].kill();
        let store = hasty(all.url()).await;
        assert_eq!(admitted(&limiter(&store, LIMIT), "key", 4).await, 4);
        all.sentinels[0].restart();
        all.sentinels[0].freeze();
        all.sentinels[1].freeze();
        let store = hasty(all.url()).await;
        assert_eq!(admitted(&limiter(&store, LIMIT), "key", 10).await, 6);
        all.sentinels[0].thaw();
        all.sentinels[1].thaw();
    });
}

#[test]
fn sentinels_that_do_not_know_the_name_are_a_clear_error() {
    run(async {
        let all = Sentinels::start_with(1, 1);
        let url = all.url().replace(NAME, "nobody");
        let error = in_time(tollgate_redis::Redis::connect(url)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("nobody"), "{error}");
    });
}
