//! The number of commands that the server counts: one round trip per hit.

use tollgate::Algorithm;

use crate::client::{admitted, eventually, limiter, patient, run};
use crate::server::Server;

/// (writes, reads) since the server was started.
fn commands(server: &Server) -> (u64, u64) {
    (server.stat("cmd_set"), server.stat("cmd_get"))
}

#[test]
fn a_hit_is_one_write_whatever_the_algorithm() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in Algorithm::PERIODIC {
            let limiter = limiter(&store, &format!("50/365 days {algorithm}"));
            let (writes, reads) = commands(&server);
            assert_eq!(admitted(&limiter, "key", 1).await, 1);
            assert_eq!(commands(&server), (writes + 1, reads + 1), "{algorithm}: in one go");
            assert_eq!(admitted(&limiter, "key", 49).await, 49);
            assert_eq!(commands(&server), (writes + 50, reads + 1), "{algorithm}");
        }
    });
}

#[test]
fn many_callers_on_one_key_share_writes() {
    run(async {
        let server = Server::start(&[]);
        let limiter = limiter(&patient(server.url()).await, "1000/365 days");
        let hits: Vec<_> = (0..640)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.hit("key").await })
            })
            .collect();
        for hit in hits {
            assert!(hit.await.unwrap().unwrap().allowed());
        }
        let (writes, reads) = commands(&server);
        assert!(writes < 640 && reads <= 1, "{writes} writes, {reads} reads");
        assert_eq!(limiter.usage("key").await.unwrap(), 640);
        // One connection is that of the store, the other one that of the test. Connections of
        // earlier commands may not be closed yet.
        eventually("one connection", || async { server.stat("curr_connections") == 2 }).await;
    });
}
