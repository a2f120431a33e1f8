//! Several keys in one call.

use tollgate::shared::hit_all_shared;
use tollgate::{ErrorKind, Tagged};

use crate::client::{admitted, limiter, patient, run};
use crate::servers::{Cluster, Server};

#[test]
fn keys_of_one_tag_are_decided_together_in_a_cluster_and_others_are_a_clear_error() {
    run(async {
        let cluster = Cluster::start();
        let store = patient(cluster.url()).await;
        let (users, hosts) = (limiter(&store, "3/365 days"), limiter(&store, "2/365 days"));
        let both = [users.item(Tagged("t", "alice"), 1), hosts.item(Tagged("t", "host"), 1)];
        for passes in [true, true, false] {
            assert_eq!(hit_all_shared(&both, None).await.unwrap().allowed(), passes);
        }
        assert_eq!(users.usage(Tagged("t", "alice")).await.unwrap(), 2);

        let apart = [users.item("alice", 1), hosts.item("host", 1)];
        let error = hit_all_shared(&apart, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
        for name in ["alice", "host", "Tagged"] {
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(users.usage("alice").await.unwrap(), 0);
        assert_eq!(hosts.usage("host").await.unwrap(), 0);
        // The limits of one subject always share a slot.
        let same = [users.item("alice", 1), hosts.item("alice", 1)];
        assert!(hit_all_shared(&same, None).await.unwrap().allowed());
        // A single server has no slots.
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        let (users, hosts) = (limiter(&store, "3/365 days"), limiter(&store, "2/365 days"));
        let apart = [users.item("alice", 1), hosts.item("host", 1)];
        assert!(hit_all_shared(&apart, None).await.unwrap().allowed());
    });
}

/// More keys than one call of the script takes, some of them twice, in another order than that of
/// the slots.
async fn many_keys(store: &tollgate_redis::Redis) {
    let limited = limiter(store, "2/365 days");
    let keys: Vec<u64> = (0..700).map(|n| n * 31 % 300).collect();
    let hits = limited.hit_each(&keys).await.unwrap();
    assert_eq!(hits.len(), keys.len());
    let mut seen = vec![0; 300];
    for (key, hit) in keys.iter().zip(&hits) {
        seen[*key as usize] += 1;
        let nth = seen[*key as usize];
        assert_eq!((hit.allowed(), hit.used()), (nth <= 2, nth.min(2)), "hit {nth} of {key}");
    }
    // Some denials are remembered by now, some are not.
    let again = limited.hit_each(&keys).await.unwrap();
    let more: u64 = again.iter().map(|hit| u64::from(hit.allowed())).sum();
    let first: u64 = hits.iter().map(|hit| u64::from(hit.allowed())).sum();
    assert_eq!(first + more, 600);
    for key in [0_u64, 150, 299] {
        assert_eq!(limited.usage(key).await.unwrap(), 2);
    }
    assert_eq!(admitted(&limited, "other", 3).await, 2);
}

#[test]
fn many_keys_in_one_call_are_answered_in_order_on_one_server() {
    run(async {
        let server = Server::start(&[]);
        many_keys(&patient(server.url()).await).await;
    });
}

#[test]
fn many_keys_in_one_call_are_answered_in_order_in_a_cluster() {
    run(async {
        let cluster = Cluster::start();
        many_keys(&patient(cluster.url()).await).await;
        for node in &cluster.nodes {
            assert!(node.size() > 0, "all nodes take part");
        }
    });
}
