//! Deletes all keys of a limit or namespace, and no others.

use tollgate::shared::{Guard, SharedLimiter};
use tollgate_redis::Redis;

use crate::client::{LONG, admitted, connect, eventually, limiter, patient, run};
use crate::servers::{Cluster, Server};

/// Characters with a meaning in patterns of Redis or in our keys, and others.
const NAMES: [&str; 14] =
    ["", "a", "ab", "a*b", "axb", "a?b", "[x]", "x", "\\", "a\\*b", "^x", "a:b", "{a}", "ü %2A"];

const LIMITS: [&str; 5] = [
    "9/365 days",
    "9/365 days name=\"*\"",
    "9/365 days name=\"[a-z]\"",
    "9/364 days name=\"*\"",
    "8/365 days",
];

struct All {
    store: Redis,
    limiters: Vec<(&'static str, &'static str, SharedLimiter<Redis>)>,
}

impl All {
    /// Hits every limit once in every namespace, with every subject.
    async fn hit(store: Redis) -> All {
        let limiters = NAMES.iter().flat_map(|namespace| {
            let on = |limit| store.limiter_in(namespace, limit).unwrap().deadline(LONG);
            LIMITS.map(|limit| (*namespace, limit, on(limit)))
        });
        let limiters: Vec<_> = limiters.collect();
        for (_, _, limited) in &limiters {
            let _ = limited.hit_each(&NAMES).await.unwrap();
        }
        All { store, limiters }
    }

    /// Keys that are left have a usage of one, the others of zero.
    async fn are_left(&self, left: impl Fn(&str, &str) -> bool) {
        for (namespace, limit, limited) in &self.limiters {
            let wanted = u64::from(left(namespace, limit));
            for subject in NAMES {
                let used = limited.usage(subject).await.unwrap();
                assert_eq!(used, wanted, "{namespace:?} {limit} {subject:?}");
            }
        }
    }

    async fn cleared(self) {
        self.are_left(|_, _| true).await;
        let mut cleared = Vec::new();
        for index in [1, 4] {
            let (namespace, limit, limited) = &self.limiters[LIMITS.len() * 3 + index];
            assert_eq!((*namespace, *limit), ("a*b", LIMITS[index]));
            limited.clear().await.unwrap();
            cleared.push(*limit);
            self.are_left(|namespace, limit| namespace != "a*b" || !cleared.contains(&limit)).await;
        }
        let mut cleared = Vec::new();
        for name in ["a*b", "?", "[x]", "\\", ""] {
            self.store.clear_namespace(name).await.unwrap();
            cleared.push(name);
            self.are_left(|namespace, _| !cleared.contains(&namespace)).await;
        }
    }
}

#[test]
fn clearing_removes_exactly_the_keys_of_a_limit_or_namespace() {
    run(async {
        let server = Server::start(&[]);
        let foreign = ["tollgate:1:nobody", "tollgate:3:{a}:a*b:x", "tollgate:1:{a", "other"];
        for key in foreign {
            server.ok(&["SET", key, "1"]);
        }
        let with_prefix = Redis::builder(server.url()).prefix("tollgat?").connect().await.unwrap();
        let elsewhere = with_prefix.limiter_in("a*b", LIMITS[1]).unwrap().deadline(LONG);
        assert!(elsewhere.hit("a").await.unwrap().allowed());
        All::hit(patient(server.url()).await).await.cleared().await;
        for key in foreign {
            assert_eq!(server.cli(&["EXISTS", key]), "1", "{key}");
        }
        assert_eq!(elsewhere.usage("a").await.unwrap(), 1);
    });
}

#[test]
fn clearing_in_a_cluster_removes_exactly_the_keys_on_all_nodes() {
    run(async {
        let cluster = Cluster::start();
        All::hit(patient(cluster.url()).await).await.cleared().await;
    });
}

#[test]
fn more_keys_than_one_slice_are_all_cleared() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let (one, other) = (store.limiter("9/day").unwrap(), store.limiter("9/hour").unwrap());
        let keys: Vec<u64> = (0..3_000).collect();
        let _ = one.hit_each(&keys).await.unwrap();
        let _ = other.hit_each(&keys).await.unwrap();
        assert_eq!(server.size(), 6_000);
        one.clear().await.unwrap();
        assert_eq!(server.size(), 3_000);
        assert_eq!(other.usage(2_999_u64).await.unwrap(), 1);
        store.clear_namespace("").await.unwrap();
        assert_eq!(server.size(), 0);
    });
}

#[test]
fn a_key_of_an_unnamed_limit_in_the_old_form_does_not_count_and_is_cleared_with_its_namespace() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = store.limiter_in("acme", "1/hour fixed-window-per-key").unwrap();
        let [old, elsewhere] = ["acme", "other"].map(|namespace| {
            format!("tollgate:1:{{a}}:{namespace}:fixed-window-per-key:3600000000:q:1:1:0")
        });
        let now = tollgate::Clock::now(&tollgate::SystemClock::new()).as_micros();
        for key in [&old, &elsewhere] {
            server.ok(&["SET", key, &format!("{now} 1")]);
        }
        assert_eq!(admitted(&limited.deadline(LONG), "a", 2).await, 1);
        store.clear_namespace("acme").await.unwrap();
        assert_eq!(server.cli(&["KEYS", "*"]), elsewhere);
    });
}

#[test]
fn a_cleared_namespace_is_not_denied_from_memory() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = store.limiter_in("acme", "1/hour").unwrap().deadline(LONG);
        assert!(limited.hit("a").await.unwrap().allowed());
        assert!(!limited.hit("a").await.unwrap().allowed());
        store.clear_namespace("acme").await.unwrap();
        assert!(limited.hit("a").await.unwrap().allowed());
    });
}

#[test]
fn a_reset_by_another_process_is_seen_while_a_denial_is_remembered() {
    run(async {
        let server = Server::start(&[]);
        let guard = Guard::builder().deadline(LONG);
        let one = limiter(&connect(server.url(), guard).await, "1/365 days");
        let other = limiter(&patient(server.url()).await, "1/365 days");
        assert_eq!(admitted(&one, "key", 2).await, 1);
        assert!(other.reset("key").await.unwrap());
        let allowed = || async { one.hit("key").await.is_ok_and(|hit| hit.allowed()) };
        eventually("the key is admitted again", allowed).await;
    });
}
