//! The number of commands that the server counts: one round trip per hit.

use std::collections::BTreeMap;

use tollgate::{Algorithm, Source, Tagged};

use crate::client::{admitted, hears, limiter, patient, run, stats};
use crate::servers::Server;

/// The commands since the last reset, without those of scripts and those of this function.
fn commands(server: &Server) -> BTreeMap<String, u64> {
    let inner = [
        "get", "set", "del", "time", "pexpire", "llen", "lindex", "lrange", "ltrim", "lset",
        "rpush",
    ];
    let info = server.cli(&["INFO", "commandstats"]);
    let line = |line: &str| {
        let (name, rest) = line.trim().strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse().ok()?;
        // The commands of these tests and of redis-cli. Redis before version 7 does not have the
        // part after the bar.
        let command = name.split('|').next()?;
        let asked = ["info", "config", "command"].contains(&command);
        // Announcements are sent beside the calls, by a task.
        let announces = ["publish", "ping"].contains(&command);
        (!asked && !announces && !inner.contains(&name)).then(|| (name.to_owned(), calls))
    };
    info.lines().filter_map(line).collect()
}

fn only_evalsha(calls: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("evalsha".to_owned(), calls)])
}

#[test]
fn a_hit_is_one_command_whatever_the_algorithm_and_operation() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        assert_eq!(admitted(&limiter(&store, "1/hour"), "first", 1).await, 1);
        for algorithm in Algorithm::PERIODIC {
            let limited = limiter(&store, &format!("100/365 days {algorithm}"));
            server.ok(&["CONFIG", "RESETSTAT"]);
            assert_eq!(admitted(&limited, "key", 50).await, 50);
            assert_eq!(commands(&server), only_evalsha(50), "{algorithm}");
            let taken = limited.take("key", 5).await.unwrap();
            let _ = limited.refund("key", &taken).await.unwrap();
            let _ = limited.peek("key").await.unwrap();
            let _ = limited.charge("key", 5).await.unwrap();
            let _ = limited.refund_n("key", 5).await.unwrap();
            let _ = limited.set("key", 5).await.unwrap();
            assert_eq!(limited.usage("key").await.unwrap(), 5);
            assert!(limited.reset("key").await.unwrap());
            assert_eq!(commands(&server), only_evalsha(58), "{algorithm}");
        }
    });
}

#[test]
fn a_policy_of_three_limits_is_one_command_and_so_is_a_group() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let policy = store.limiter("50/365 days; 60/364 days; 70/363 days").unwrap();
        assert!(policy.hit("first").await.unwrap().allowed());
        server.ok(&["CONFIG", "RESETSTAT"]);
        for _ in 0..50 {
            assert!(policy.hit("key").await.unwrap().allowed());
        }
        assert_eq!(commands(&server), only_evalsha(50));
        let limited = limiter(&store, "50/365 days");
        let items = [limited.item(Tagged("t", 1), 1), limited.item(Tagged("t", 2), 1)];
        assert!(tollgate::shared::hit_all_shared(&items, None).await.unwrap().allowed());
        let _ = limited.hit_each(&["a", "b", "c", "a"]).await.unwrap();
        assert_eq!(commands(&server), only_evalsha(52));
    });
}

#[test]
fn a_denied_hot_key_costs_no_command() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "3/365 days");
        let policy = store.limiter("3/365 days; 9/365 days").unwrap();
        hears(&store).await;
        assert_eq!(admitted(&limited, "key", 4).await, 3);
        assert!(!policy.hit("key").await.unwrap().allowed());
        server.ok(&["CONFIG", "RESETSTAT"]);
        let before = stats(&store);
        for _ in 0..100 {
            let hit = limited.hit("key").await.unwrap();
            assert_eq!((hit.allowed(), hit.source()), (false, Source::DenialCache));
            assert!(!policy.hit("key").await.unwrap().allowed());
        }
        assert!(limited.hit_each(&["key", "key"]).await.unwrap().iter().all(|hit| !hit.allowed()));
        assert_eq!(commands(&server), BTreeMap::new());
        let after = stats(&store);
        assert_eq!(after.remembered - before.remembered, 202);
        assert_eq!(after.answered, before.answered);
    });
}

#[test]
fn hits_that_run_together_use_one_connection() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "1000/365 days");
        let hits: Vec<_> = (0..64)
            .map(|_| {
                let limited = limited.clone();
                tokio::spawn(async move { limited.hit("key").await })
            })
            .collect();
        for hit in hits {
            assert!(hit.await.unwrap().unwrap().allowed());
        }
        assert_eq!(server.info("connected_clients").as_deref(), Some("2"), "one is redis-cli");
    });
}
