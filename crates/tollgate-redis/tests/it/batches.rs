//! Hits that wait at the same time are one call of the script.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::shared::{Ask, SharedLimiter, SharedStore};
use tollgate::{Decision, Error, ErrorKind, KeyRef, Limit, Outcome, Tagged};
use tollgate_redis::Redis;

use crate::client::{
    LONG, admitted, answers, connect, hasty_guard, in_time, key_of, limiter, patient,
    patient_guard, run,
};
use crate::servers::{Cluster, Server};

const BATCHED: [&str; 3] = ["gcra", "fixed-window", "fixed-window-per-key"];

type Hit = Pin<Box<dyn Future<Output = Result<Decision, Error>> + Send>>;

/// A hit that has begun: its script call is sent or waits.
async fn begun(limited: &SharedLimiter<Redis>, key: &str) -> Hit {
    let (limited, key) = (limited.clone(), key.to_owned());
    let mut hit: Hit = Box::pin(async move { limited.hit(&key).await });
    std::future::poll_fn(|cx| {
        assert!(hit.as_mut().poll(cx).is_pending(), "nobody answers");
        Poll::Ready(())
    })
    .await;
    hit
}

#[test]
fn hits_that_wait_for_one_call_are_the_next_call() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in BATCHED {
            let limited = limiter(&store, &format!("40/365 days {algorithm}"));
            assert_eq!(admitted(&limited, "key", 1).await, 1);
            server.ok(&["CONFIG", "RESETSTAT"]);
            server.freeze();
            let mut hits = Vec::new();
            for _ in 0..64 {
                hits.push(begun(&limited, "key").await);
            }
            server.thaw();
            let mut used = Vec::new();
            for hit in hits {
                let hit = hit.await.unwrap();
                used.extend(hit.allowed().then_some(hit.used()));
            }
            // The hits were decided in the order of their arrival.
            assert_eq!(used, (2..=40).collect::<Vec<u64>>(), "{algorithm}");
            assert_eq!(server.calls("evalsha"), 2, "the first hit, and all others");
            assert_eq!(server.calls("set"), 2);
            assert_eq!(limited.usage("key").await.unwrap(), 40);
        }
    });
}

#[test]
fn a_call_takes_a_hundred_hits() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "1000/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.ok(&["CONFIG", "RESETSTAT"]);
        server.freeze();
        let mut hits = Vec::new();
        for _ in 0..251 {
            hits.push(begun(&limited, "key").await);
        }
        server.thaw();
        for hit in hits {
            assert!(hit.await.unwrap().allowed());
        }
        assert_eq!(server.calls("evalsha"), 1 + 3);
    });
}

/// Hits of many tasks on one key.
async fn exactly_the_limit_passes(store: &Redis, key: &'static str) {
    for algorithm in BATCHED {
        let limited = limiter(store, &format!("137/365 days {algorithm}"));
        let hits: Vec<_> = (0..500)
            .map(|_| {
                let limited = limited.clone();
                tokio::spawn(async move { limited.hit(key).await })
            })
            .collect();
        let mut used = Vec::new();
        for hit in hits {
            let hit = hit.await.unwrap().unwrap();
            used.extend(hit.allowed().then_some(hit.used()));
        }
        used.sort_unstable();
        assert_eq!(used, (1..=137).collect::<Vec<u64>>(), "{algorithm}");
        assert_eq!(limited.usage(key).await.unwrap(), 137);
    }
}

#[test]
fn concurrent_hits_on_one_key_admit_exactly_the_limit() {
    run(async {
        let server = Server::start(&[]);
        let store = connect(server.url(), patient_guard().remember_denials(0)).await;
        exactly_the_limit_passes(&store, "key").await;
        let cluster = Cluster::start();
        let store = connect(cluster.url(), patient_guard().remember_denials(0)).await;
        exactly_the_limit_passes(&store, "key").await;
    });
}

#[test]
fn two_limits_with_one_name_share_a_counter_in_one_call() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in BATCHED {
            let (free, paid) = (
                format!("4/365 days {algorithm} name=api"),
                format!("9/365 days {algorithm} name=api"),
            );
            let (free, paid) = (limiter(&store, &free), limiter(&store, &paid));
            server.freeze();
            let mut hits = vec![begun(&free, "key").await];
            for limited in [&free, &paid, &free, &paid, &free, &paid] {
                hits.push(begun(limited, "key").await);
            }
            server.thaw();
            let mut allowed = Vec::new();
            for hit in hits {
                allowed.push(hit.await.unwrap().allowed());
            }
            // By GCRA a hit of `free` takes a quarter and a hit of `paid` a ninth.
            let last = algorithm != "gcra";
            assert_eq!(allowed, [true, true, true, true, true, false, last], "{algorithm}");
        }
    });
}

#[test]
fn a_key_that_holds_no_state_fails_alone() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in BATCHED {
            let text = format!("5/365 days {algorithm}");
            let limited = limiter(&store, &text);
            let [list, word] = ["list", "word"].map(|key| key_of(&store, &text, key));
            server.cli(&["RPUSH", &list, "1"]);
            server.ok(&["SET", &word, "what is this"]);
            assert_eq!(admitted(&limited, "x", 1).await, 1);
            server.ok(&["CONFIG", "RESETSTAT"]);
            server.freeze();
            let mut hits = Vec::new();
            let keys = ["a", "b", "x", "list", "c", "x", "word", "d", "list", "x"];
            for key in keys {
                hits.push(begun(&limited, key).await);
            }
            server.thaw();
            for (key, hit) in keys.iter().zip(hits) {
                let hit = hit.await;
                if ["list", "word"].contains(key) {
                    let error = hit.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Store, "{key}: {error}");
                    assert!(!error.is_transient() && error.to_string().contains(key), "{error}");
                } else {
                    assert!(hit.unwrap().allowed(), "{key}");
                }
            }
            assert!(server.calls("evalsha") <= 4, "the keys were together");
            assert_eq!(server.cli(&["LRANGE", &list, "0", "-1"]), "1");
            assert_eq!(server.cli(&["GET", &word]), "what is this");
            assert_eq!(limited.usage("x").await.unwrap(), 4);
            // One caller with several keys gets the error.
            let error = limited.hit_each(&["a", "word", "b"]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Store, "{error}");
            for key in ["list", "word"] {
                assert!(limited.reset(key).await.unwrap());
                assert_eq!(admitted(&limited, key, 9).await, 5);
            }
        }
    });
}

#[test]
fn a_caller_that_gives_up_before_its_call_is_sent_is_not_charged() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "100/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        server.freeze();
        let sent = begun(&limited, "key").await;
        let (mut stay, mut leave) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            leave.push(begun(&limited, "key").await);
            stay.push(begun(&limited, "key").await);
        }
        drop(leave);
        server.thaw();
        assert_eq!(sent.await.unwrap().used(), 2);
        for hit in stay {
            assert!(hit.await.unwrap().allowed());
        }
        assert_eq!(limited.usage("key").await.unwrap(), 22);
    });
}

#[test]
fn a_caller_that_gives_up_after_its_call_was_sent_delays_nobody() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "100/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        for others in [0, 5] {
            server.freeze();
            let first = begun(&limited, "key").await;
            let mut hits = Vec::new();
            for _ in 0..others {
                hits.push(begun(&limited, "key").await);
            }
            drop(first);
            hits.push(begun(&limited, "key").await);
            server.thaw();
            for hit in hits {
                assert!(in_time(hit).await.unwrap().allowed());
            }
        }
        assert_eq!(limited.usage("key").await.unwrap(), 1 + 2 + 7, "sent hits count");
    });
}

#[test]
fn hits_while_scripts_are_flushed_are_charged_once() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let limited = limiter(&store, "1000000/365 days");
        let ended = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..16)
            .map(|caller| {
                let (limited, ended) = (limited.clone(), Arc::clone(&ended));
                tokio::spawn(async move {
                    let keys = ["hot".to_owned(), format!("own {caller}")];
                    let mut hits = 0;
                    while !ended.load(Ordering::Relaxed) {
                        for key in &keys {
                            assert!(limited.hit(key).await.unwrap().allowed());
                        }
                        hits += 1;
                    }
                    (keys, hits)
                })
            })
            .collect();
        for _ in 0..30 {
            server.ok(&["SCRIPT", "FLUSH"]);
        }
        ended.store(true, Ordering::Relaxed);
        let mut all = 0;
        for caller in callers {
            let ([_, own], hits) = caller.await.unwrap();
            assert_eq!(limited.usage(&own).await.unwrap(), hits);
            all += hits;
        }
        assert_eq!(limited.usage("hot").await.unwrap(), all);
    });
}

#[test]
fn hits_while_a_server_is_killed_are_charged_at_most_once() {
    run(async {
        // It keeps its states when it is killed.
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut server = Server::start(&args);
        let store = connect(server.url(), hasty_guard().remember_denials(0)).await;
        let limited = limiter(&store, "1000000/365 days");
        let ended = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..32)
            .map(|_| {
                let (limited, ended) = (limited.clone(), Arc::clone(&ended));
                tokio::spawn(async move {
                    let (mut allowed, mut lost) = (0, 0);
                    while !ended.load(Ordering::Relaxed) {
                        match in_time(limited.hit("key")).await {
                            Ok(_) => allowed += 1,
                            Err(error) if error.kind() == ErrorKind::Unavailable => {}
                            Err(_) => lost += 1,
                        }
                        tokio::task::yield_now().await;
                    }
                    (allowed, lost)
                })
            })
            .collect();
        for _ in 0..3 {
            answers(&limited, "other").await;
            server.kill();
            server.restart();
        }
        answers(&limited, "other").await;
        ended.store(true, Ordering::Relaxed);
        let (mut allowed, mut lost) = (0, 0);
        for caller in callers {
            let (more_allowed, more_lost) = caller.await.unwrap();
            (allowed, lost) = (allowed + more_allowed, lost + more_lost);
        }
        let used = limited.within(LONG).usage("key").await.unwrap();
        assert!(allowed > 0);
        assert!(
            (allowed..=allowed + lost).contains(&used),
            "{used} charged, {allowed} allowed, {lost} possibly charged"
        );
    });
}

#[test]
fn keys_of_one_slot_are_one_call_and_keys_of_others_are_not() {
    run(async {
        let cluster = Cluster::start();
        let store = patient(cluster.url()).await;
        let limited = limiter(&store, "3/365 days");
        let key = store.key_of("", "3/365 days", Tagged("t", 0)).unwrap();
        let home = &cluster.nodes[Cluster::first_owner(cluster.slot_of(&key))];
        // All nodes have the script and a connection.
        let keys: Vec<String> = (0..60).map(|n| format!("warm {n}")).collect();
        let _ = limited.hit_each(&keys).await.unwrap();
        home.ok(&["CONFIG", "RESETSTAT"]);
        home.freeze();
        let hit = |n: u64| {
            let limited = limited.clone();
            let hit: Hit = Box::pin(async move { limited.hit(Tagged("t", n % 10)).await });
            hit
        };
        let mut hits: Vec<Hit> = (0..50).map(hit).collect();
        std::future::poll_fn(|cx| {
            assert!(hits.iter_mut().all(|hit| hit.as_mut().poll(cx).is_pending()));
            Poll::Ready(())
        })
        .await;
        home.thaw();
        let mut passed = 0;
        for hit in hits {
            passed += u64::from(hit.await.unwrap().allowed());
        }
        assert_eq!((passed, home.calls("evalsha")), (30, 2));
        // Keys of many slots, each hit by many callers.
        let callers: Vec<_> = (0..16)
            .map(|_| {
                let limited = limited.clone();
                tokio::spawn(async move {
                    let mut passed = vec![0; 100];
                    for (key, passed) in passed.iter_mut().enumerate() {
                        let hit = limited.hit(key as u64).await.unwrap();
                        *passed += u64::from(hit.allowed());
                    }
                    passed
                })
            })
            .collect();
        let mut sum = vec![0; 100];
        for caller in callers {
            for (sum, passed) in sum.iter_mut().zip(caller.await.unwrap()) {
                *sum += passed;
            }
        }
        assert_eq!(sum, vec![3; 100]);
    });
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The suite compares single hits at given times. Here several hits, also on one key, are in one
/// call, and the time is the server's.
#[test]
fn hits_in_one_call_decide_as_the_pure_functions_one_after_another() {
    const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let limits = [
        "7/second burst=3",
        "1000/second burst=5",
        "13/10 milliseconds",
        "2/36500 days",
        "1000000000000/day",
        "999999999989/36500 days burst=1000000",
        "5/20 milliseconds fixed-window",
        "5/20 milliseconds fixed-window-per-key",
        "9/50 milliseconds fixed-window charge-denied",
        "9/50 milliseconds fixed-window-per-key charge-denied",
    ];
    run(async {
        let server = Server::start(&[]);
        let store = connect(server.url(), patient_guard().remember_denials(0)).await;
        let mut numbers = Numbers(20_26);
        for text in limits {
            let limit: Limit = text.parse().unwrap();
            let (prepared, machine) = (store.prepare("", &limit).unwrap(), AnyMachine::new(&limit));
            let most = machine.capacity().min(6);
            let mut states: [Option<AnyState>; 4] = Default::default();
            for round in 0..300 {
                let hits: Vec<(usize, u64)> = (0..1 + numbers.below(12))
                    .map(|_| {
                        (numbers.below(4) as usize, 1 + numbers.below(most) * numbers.below(2))
                    })
                    .collect();
                let ask = |(key, cost): &(usize, u64)| Ask {
                    prepared: &prepared,
                    key: KeyRef::plain(KEYS[*key]),
                    op: Op::Hit(*cost),
                };
                let asks: Vec<_> = hits.iter().map(ask).collect();
                let decided = store.ask_each(&asks, None, LONG).await.unwrap();
                for ((key, cost), got) in hits.iter().zip(&decided) {
                    let wanted = machine.apply(&mut states[*key], got.now(), Op::Hit(*cost));
                    let of = |outcome: &Outcome| (outcome.allowed(), outcome.fields());
                    assert_eq!(of(got), of(&wanted), "{text}, round {round}: {hits:?}");
                }
            }
        }
    });
}
