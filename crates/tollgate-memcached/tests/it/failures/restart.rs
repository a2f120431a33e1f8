//! A restarted server is empty, and counts its versions from one again.

use crate::client::{admitted, answers, hasty, limiter, patient, run};
use crate::server::Server;

#[test]
fn after_a_restart_each_key_gets_its_limit_once_more_and_no_more() {
    run(async {
        let mut server = Server::start(&[]);
        let limiter = limiter(&hasty(server.url()).await, "5/365 days fixed-window-per-key");
        assert_eq!(admitted(&limiter, "key", 5).await, 5);
        server.restart();
        answers(&limiter, "key").await;
        assert_eq!(admitted(&limiter, "key", 9).await, 5);
    });
}

/// A cached cell has a version that the new server gives to another state of the same key. It must
/// not match.
#[test]
fn a_version_from_before_a_restart_never_matches() {
    run(async {
        let mut server = Server::start(&[]);
        let one = limiter(&hasty(server.url()).await, "9/365 days");
        assert!(one.hit("key").await.unwrap().allowed());
        server.restart();
        // The first write there, as it was on the server before.
        let other = limiter(&patient(server.url()).await, "9/365 days");
        assert!(other.hit_n("key", 5).await.unwrap().allowed());
        answers(&one, "another key").await;
        assert!(one.within(crate::client::LONG).hit("key").await.unwrap().allowed());
        assert_eq!(other.usage("key").await.unwrap(), 6);
    });
}

#[test]
fn keys_flushed_by_an_operator_start_fresh() {
    run(async {
        let server = Server::start(&[]);
        let limiter = limiter(&patient(server.url()).await, "2/365 days");
        assert_eq!(admitted(&limiter, "key", 3).await, 2);
        assert_eq!(server.says("flush_all"), "OK");
        assert_eq!(admitted(&limiter, "key", 3).await, 2);
    });
}
