//! A node of a cluster is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::shared::SharedLimiter;
use tollgate::{ErrorKind, Source};
use tollgate_redis::Redis;

use crate::client::{
    LONG, Rules, admitted, answers, eventually, hasty, in_time, limiter, patient, run, stats,
};
use crate::servers::Cluster;

const LIMIT: &str = "10/365 days";

/// A subject whose keys are on that node.
fn subject_on(cluster: &Cluster, store: &Redis, node: usize, name: &str) -> String {
    let on_it = |subject: &String| {
        let key = store.key_of("", LIMIT, subject).unwrap();
        Cluster::first_owner(cluster.slot_of(&key)) == node
    };
    (0..).map(|n| format!("{name}{n}")).find(on_it).unwrap()
}

/// A subject whose slot is one of these.
fn subject_in(cluster: &Cluster, store: &Redis, slots: std::ops::RangeInclusive<u16>) -> String {
    let slot = |subject: &String| cluster.slot_of(&store.key_of("", LIMIT, subject).unwrap());
    (0..).map(|n| format!("s{n}")).find(|subject| slots.contains(&slot(subject))).unwrap()
}

#[test]
fn a_partly_executed_call_is_not_reported_as_unexecuted() {
    run(async {
        let mut cluster = Cluster::start();
        let store = hasty(cluster.url()).await;
        let limited = limiter(&store, LIMIT);
        // The last slots of the first node and the first of the second have one breaker, so their
        // keys go in one call.
        let away = subject_in(&cluster, &store, 5_376..=5_460);
        let well = subject_in(&cluster, &store, 5_461..=5_631);
        let both = [&away, &well];
        assert_eq!(limited.within(LONG).hit_each(&both).await.unwrap().len(), 2);
        let other = limiter(&patient(cluster.url()).await, LIMIT);
        cluster.nodes[0].kill();
        let mut lost = 0;
        for _ in 0..10 {
            let error = in_time(limited.hit_each(&both)).await.unwrap_err();
            lost += u64::from(error.kind() != ErrorKind::Unavailable);
        }
        let used = other.usage(&well).await.unwrap();
        assert!(used <= 1 + lost, "{used} in use, but only {lost} may have been executed");
    });
}

/// Hits one key after another on a healthy node, until stopped. The store must decide all of them.
fn goes_on(
    limited: &SharedLimiter<Redis>,
    key: String,
    ended: &Arc<AtomicBool>,
) -> tokio::task::JoinHandle<u64> {
    let (limited, ended) = (limited.clone(), Arc::clone(ended));
    tokio::spawn(async move {
        let mut answered = 0;
        while !ended.load(Ordering::Relaxed) {
            let hit = limited.within(LONG).hit(&key).await;
            let hit = hit.unwrap_or_else(|error| panic!("a node that is well: {error}"));
            assert!(matches!(hit.source(), Source::Store | Source::DenialCache));
            answered += 1;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        answered
    })
}

#[test]
fn a_stopped_node_does_not_affect_keys_of_other_nodes() {
    run(async {
        let mut cluster = Cluster::start();
        let store = hasty(cluster.url()).await;
        let limited = limiter(&store, LIMIT);
        let (away, well) =
            (subject_on(&cluster, &store, 0, "a"), subject_on(&cluster, &store, 1, "b"));
        assert_eq!(admitted(&limited, &away, 1).await, 1);
        assert_eq!(admitted(&limited, &well, 1).await, 1);
        let ended = Arc::new(AtomicBool::new(false));
        let going_on = goes_on(&limited, well.clone(), &ended);
        cluster.nodes[0].kill();
        eventually("the breaker of its slots opens", || async {
            let _ = in_time(limited.hit(&away)).await;
            stats(&store).opened > 0
        })
        .await;
        Rules::on(&store).hold_without_the_store(&away).await;
        cluster.nodes[0].restart();
        answers(&limited, &away).await;
        ended.store(true, Ordering::Relaxed);
        assert!(going_on.await.unwrap() > 0);
        // The states of the node are lost.
        assert_eq!(admitted(&limited, &away, 12).await, 10);
        assert_eq!(limited.within(LONG).usage(&well).await.unwrap(), 10);
    });
}

async fn taken_over(cluster: &Cluster, store: &Redis, freeze_only: bool, kill: impl FnOnce()) {
    let limited = limiter(store, LIMIT);
    let (away, well) = (subject_on(cluster, store, 0, "a"), subject_on(cluster, store, 1, "b"));
    assert_eq!(admitted(&limited, &away, 4).await, 4);
    cluster.nodes[3].has_all_of(&cluster.nodes[0]);
    let ended = Arc::new(AtomicBool::new(false));
    let going_on = goes_on(&limited, well, &ended);
    kill();
    answers(&limited, &away).await;
    assert!(cluster.nodes[3].cli(&["ROLE"]).starts_with("master"));
    assert_eq!(admitted(&limited, &away, 10).await, 6);
    ended.store(true, Ordering::Relaxed);
    assert!(going_on.await.unwrap() > 0);
    assert!(freeze_only || stats(store).unavailable > 0);
}

#[test]
fn the_replica_of_a_killed_node_continues_the_counts() {
    run(async {
        let cluster = Cluster::start_with_replica();
        let store = hasty(cluster.url()).await;
        taken_over(&cluster, &store, false, || cluster.nodes[0].kill_only()).await;
    });
}

#[test]
fn the_replica_of_a_frozen_node_continues_the_counts() {
    run(async {
        let cluster = Cluster::start_with_replica();
        let store = hasty(cluster.url()).await;
        taken_over(&cluster, &store, true, || cluster.nodes[0].freeze()).await;
        cluster.nodes[0].thaw();
    });
}
