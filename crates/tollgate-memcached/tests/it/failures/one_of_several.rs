//! One server of three is stopped. Keys on the others are not affected.

use tollgate::ErrorKind;

use crate::client::{admitted, answers, hasty, in_time, limiter, run};
use crate::server::Server;

#[test]
fn keys_of_other_servers_are_answered() {
    run(async {
        let mut servers: Vec<Server> = (0..3).map(|_| Server::start(&[])).collect();
        let hosts: Vec<_> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port)).collect();
        let store = hasty(format!("memcached://{}", hosts.join(","))).await;
        let limiter = limiter(&store, "5/365 days");
        let keys: Vec<String> = (0..60).map(|n| format!("key {n}")).collect();
        for key in &keys {
            assert_eq!(admitted(&limiter, key, 1).await, 1);
        }
        let shares: Vec<u64> = servers.iter().map(|server| server.stat("curr_items")).collect();
        assert!(shares.iter().all(|share| *share > 5), "{shares:?}");
        servers[1].kill();
        let mut failed = 0;
        for _ in 0..3 {
            failed = 0;
            for key in &keys {
                match in_time(limiter.hit(key)).await {
                    Ok(hit) => assert!(hit.allowed(), "{key}"),
                    Err(error) => {
                        assert_ne!(error.kind(), ErrorKind::Request, "{error}");
                        failed += 1;
                    }
                }
            }
        }
        assert_eq!(failed, shares[1]);
        // It comes back empty.
        servers[1].restart();
        for key in &keys {
            answers(&limiter, key).await;
        }
    });
}
