//! Announcements of changed keys: denials that one process remembers end when another process
//! resets, sets or refunds the key.

use std::time::Duration;

use tollgate::shared::SharedStore as _;
use tollgate_testservers::calls::{
    eventually_admits, exhausted, forgets_all_after, forgets_what_another_gives_back, still_denied,
};

use crate::client::{
    admitted, answers, connect, eventually, hears, limiter, patient, patient_guard, run,
};
use crate::servers::{Cluster, Server};

const LIMIT: &str = "3/365 days";

#[test]
fn a_reset_set_or_refund_by_another_process_ends_a_remembered_denial() {
    run(async {
        let server = Server::start(&[]);
        let (one, other) = (patient(server.url()).await, patient(server.url()).await);
        hears(&one).await;
        forgets_what_another_gives_back(&one, &other).await;
        let limited = exhausted(&one, "namespace").await;
        other.clear_namespace("").await.unwrap();
        eventually_admits(&limited, "namespace").await;
    });
}

#[test]
fn hits_are_not_announced_and_messages_contain_no_key() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        hears(&store).await;
        let limited = exhausted(&store, "alice").await;
        let _ = limited.peek("alice").await.unwrap();
        let _ = limited.charge("alice", 1).await.unwrap();
        assert_eq!(server.calls("publish"), 0);
        let client = redis::Client::open(server.url()).unwrap();
        let mut spy = client.get_async_pubsub().await.unwrap();
        spy.subscribe("tollgate:changed").await.unwrap();
        let _ = limited.reset("alice").await.unwrap();
        let message = futures_util::StreamExt::next(&mut spy.on_message()).await.unwrap();
        // The sender as 16 digits, and the digest.
        assert!(
            message.get_payload::<String>().is_ok_and(|m| m.len() == 20 && m.ends_with("22e1"))
        );
    });
}

#[test]
fn after_a_cut_subscription_nothing_remembered_before_is_used() {
    run(async {
        let server = Server::start(&[]);
        let (one, other) = (patient(server.url()).await, patient(server.url()).await);
        let silent = connect(server.url(), patient_guard().remember_denials(0)).await;
        hears(&one).await;
        let cut = async { assert_eq!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]), "1") };
        forgets_all_after(cut, &one, &silent).await;
        forgets_what_another_gives_back(&one, &other).await;
    });
}

#[test]
fn a_process_that_remembers_nothing_neither_announces_nor_listens() {
    run(async {
        let server = Server::start(&[]);
        for guard in
            [patient_guard().remember_denials(0), patient_guard().denials_for(Duration::ZERO)]
        {
            let store = connect(server.url(), guard).await;
            let limited = limiter(&store, LIMIT);
            assert_eq!(admitted(&limited, "key", 4).await, 3);
            assert!(limited.reset("key").await.unwrap());
            answers(&limited, "key").await;
            assert_eq!(store.report().figures[0].value, 0);
        }
        assert_eq!((server.calls("publish"), server.calls("subscribe")), (0, 0));
    });
}

#[test]
fn without_the_right_to_publish_and_subscribe_all_else_works() {
    run(async {
        let server = Server::start(&[]);
        server.ok(&["ACL", "SETUSER", "shop", "on", ">word", "~*", "resetchannels", "+@all"]);
        let url = format!("redis://shop:word@127.0.0.1:{}/", server.port);
        let (one, other) = (patient(url.clone()).await, patient(url).await);
        let limited = exhausted(&one, "key").await;
        let there = limiter(&other, LIMIT);
        assert!(there.reset("key").await.unwrap());
        for store in [&one, &other] {
            let warned = || async { !store.report().warnings.is_empty() };
            eventually("a warning", warned).await;
        }
        assert!(there.hit("key").await.unwrap().allowed());
        still_denied(&limited, "key").await;
    });
}

#[test]
fn in_a_cluster_an_announcement_reaches_processes_on_all_nodes() {
    run(async {
        let cluster = Cluster::start();
        let (one, other) = (patient(cluster.url()).await, patient(cluster.url()).await);
        hears(&one).await;
        // The keys are on several nodes.
        forgets_what_another_gives_back(&one, &other).await;
    });
}
