//! Slots move between nodes while hits run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate::shared::SharedLimiter;
use tollgate::{Algorithm, Error, Tagged};
use tollgate_redis::Redis;

use crate::client::{LONG, eventually, in_time, limiter, patient, run, stats};
use crate::servers::Cluster;

const QUOTA: u64 = 5;

/// Limits of all algorithms on one subject.
fn limits() -> Vec<String> {
    Algorithm::PERIODIC
        .into_iter()
        .map(|algorithm| format!("{QUOTA}/365 days {algorithm}"))
        .collect()
}

/// A policy of three of them.
fn policy(store: &Redis) -> SharedLimiter<Redis> {
    let text = "5/365 days; 6/365 days moving-window; 7/365 days fixed-window-per-key";
    store.limiter(text).unwrap().deadline(LONG)
}

/// The slot of a tag and the node that has it.
fn place_of(cluster: &Cluster, store: &Redis, tag: &str) -> (u16, usize) {
    let key = store.key_of("", "1/hour", Tagged(tag, "key")).unwrap();
    let slot = cluster.slot_of(&key);
    (slot, Cluster::first_owner(slot))
}

#[test]
fn hits_on_a_slot_that_moves_back_and_forth_are_all_answered_and_counted_once() {
    const KEYS: u64 = 40;
    run(async {
        let cluster = Cluster::start();
        let store = patient(cluster.url()).await;
        let (slot, home) = place_of(&cluster, &store, "tag");
        let away = (home + 1) % 3;
        let ended = Arc::new(AtomicBool::new(false));
        // Callers that cycle through the keys, each with all algorithms.
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let limiters: Vec<_> = limits().iter().map(|text| limiter(&store, text)).collect();
                let ended = Arc::clone(&ended);
                tokio::spawn(async move {
                    let mut passed = vec![0; limiters.len()];
                    let mut key = 0;
                    while !ended.load(Ordering::Relaxed) || key % KEYS != 0 {
                        for (limited, passed) in limiters.iter().zip(&mut passed) {
                            let hit = limited.hit(Tagged("tag", key % KEYS)).await;
                            let hit = hit.unwrap_or_else(|error| panic!("{error}"));
                            *passed += u64::from(hit.allowed());
                        }
                        key += 1;
                        tokio::task::yield_now().await;
                    }
                    passed
                })
            })
            .collect();
        for (from, to) in [(home, away), (away, home), (home, away)] {
            let answered = stats(&store).answered;
            cluster.begin_move(slot, from, to);
            eventually("hits run meanwhile", || async { stats(&store).answered > answered + 50 })
                .await;
            while cluster.move_keys(slot, from, to, 25) {}
            cluster.end_move(slot, from, to);
        }
        ended.store(true, Ordering::Relaxed);
        let mut passed = vec![0; limits().len()];
        for caller in callers {
            for (sum, own) in passed.iter_mut().zip(caller.await.unwrap()) {
                *sum += own;
            }
        }
        // Each caller has hit each key at least once. Now use up the rest.
        for (text, passed) in limits().iter().zip(passed) {
            let limited = limiter(&store, text);
            let (mut all, mut used) = (passed, 0);
            for key in 0..KEYS {
                for _ in 0..QUOTA {
                    let hit = limited.hit(Tagged("tag", key)).await.unwrap();
                    all += u64::from(hit.allowed());
                }
                used += limited.usage(Tagged("tag", key)).await.unwrap();
            }
            assert_eq!((all, used), (KEYS * QUOTA, KEYS * QUOTA), "{text}");
        }
        assert_eq!((stats(&store).lost, stats(&store).unavailable), (0, 0), "{:?}", stats(&store));
    });
}

#[test]
fn hits_in_one_call_are_decided_once_while_some_of_their_keys_have_moved() {
    run(async {
        let cluster = Cluster::start();
        let store = patient(cluster.url()).await;
        let limited = limiter(&store, "3/365 days");
        let (slot, home) = place_of(&cluster, &store, "tag");
        let away = (home + 1) % 3;
        let used = async |keys: u64| {
            let keys: Vec<_> = (0..keys).map(|key| Tagged("tag", key)).collect();
            let hits = limited.hit_each(&keys).await.unwrap();
            hits.iter().map(tollgate::Decision::used).collect::<Vec<_>>()
        };
        assert_eq!(used(10).await, [1; 10]);
        cluster.begin_move(slot, home, away);
        assert!(cluster.move_keys(slot, home, away, 5));
        // The last five are new.
        assert_eq!(used(15).await, [[2; 5], [2; 5], [1; 5]].concat());
        while cluster.move_keys(slot, home, away, 25) {}
        assert_eq!(used(15).await, [[3; 5], [3; 5], [2; 5]].concat());
        cluster.end_move(slot, home, away);
        assert_eq!(used(15).await, [3; 15]);
        assert_eq!((stats(&store).lost, stats(&store).unavailable), (0, 0), "{:?}", stats(&store));
    });
}

#[test]
fn policies_on_new_subjects_are_decided_while_their_slot_moves() {
    run(async {
        let cluster = Cluster::start();
        let store = patient(cluster.url()).await;
        let policy = policy(&store);
        let (slot, home) = place_of(&cluster, &store, "tag");
        let away = (home + 1) % 3;
        let hits = async |subject: &str| {
            let mut passed = 0;
            for _ in 0..8 {
                let hit = policy.hit(Tagged("tag", subject)).await;
                passed += u64::from(hit.unwrap_or_else(|e| panic!("{subject}: {e}")).allowed());
            }
            passed
        };
        assert_eq!(hits("before").await, QUOTA);
        cluster.begin_move(slot, home, away);
        // New keys are created on the new node. Existing keys are still on the old one.
        assert_eq!(hits("new").await, QUOTA);
        assert!(!policy.peek(Tagged("tag", "before")).await.unwrap().allowed());
        while cluster.move_keys(slot, home, away, 1) {}
        assert_eq!(hits("newer").await, QUOTA);
        assert_eq!(hits("before").await, 0);
        cluster.end_move(slot, home, away);
        for subject in ["before", "new", "newer"] {
            assert_eq!(hits(subject).await, 0);
            let decision = policy.peek(Tagged("tag", subject)).await.unwrap();
            let used: Vec<u64> = decision.outcomes().iter().map(tollgate::Outcome::used).collect();
            assert_eq!(used, [QUOTA, QUOTA, QUOTA], "{subject}");
        }
        assert_eq!(hits("last").await, QUOTA);
    });
}

#[test]
fn policies_on_a_slot_that_moves_are_never_charged_in_part() {
    const SUBJECTS: u64 = 30;
    run(async {
        let cluster = Cluster::start();
        let store = patient(cluster.url()).await;
        let (slot, home) = place_of(&cluster, &store, "tag");
        let away = (home + 1) % 3;
        let (ended, hits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let (policy, ended, hits) = (policy(&store), Arc::clone(&ended), Arc::clone(&hits));
                tokio::spawn(async move {
                    let mut passed = vec![0; SUBJECTS as usize];
                    for subject in (0..SUBJECTS).cycle() {
                        if ended.load(Ordering::Relaxed) {
                            break;
                        }
                        match in_time(policy.hit(Tagged("tag", subject))).await {
                            Ok(hit) => passed[subject as usize] += u64::from(hit.allowed()),
                            Err(error) => is_about_the_move(&error),
                        }
                        hits.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                    passed
                })
            })
            .collect();
        for (from, to) in [(home, away), (away, home)] {
            cluster.begin_move(slot, from, to);
            // Key by key, so that subjects are in both places for a while.
            loop {
                let before = hits.load(Ordering::Relaxed);
                if !cluster.move_keys(slot, from, to, 1) {
                    break;
                }
                eventually("hits run meanwhile", || async {
                    hits.load(Ordering::Relaxed) > before
                })
                .await;
            }
            cluster.end_move(slot, from, to);
        }
        ended.store(true, Ordering::Relaxed);
        let mut passed = vec![0; SUBJECTS as usize];
        for caller in callers {
            for (sum, own) in passed.iter_mut().zip(caller.await.unwrap()) {
                *sum += own;
            }
        }
        let policy = policy(&store);
        for subject in 0..SUBJECTS {
            let key = Tagged("tag", subject);
            let mut passed = passed[subject as usize];
            let decision = policy.peek(key).await.unwrap();
            let used: Vec<u64> = decision.outcomes().iter().map(tollgate::Outcome::used).collect();
            assert_eq!(used, [passed; 3], "{subject}: what passed is what is in use");
            for _ in 0..QUOTA {
                passed += u64::from(policy.hit(key).await.unwrap().allowed());
            }
            assert_eq!(passed, QUOTA, "{subject}");
        }
        assert_eq!(stats(&store).lost, 0);
    });
}

/// A subject in two places: the call is not decided, surely not executed, and works after the move.
fn is_about_the_move(error: &Error) {
    let text = error.to_string().to_lowercase();
    assert!(error.is_transient() && text.contains("tryagain"), "{error}");
}
