//! Names, and deleting many of them.

use crate::client::{LONG, admitted, key_of, limiter, patient, run};
use crate::server::Server;

#[test]
fn a_state_has_a_readable_name() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        assert_eq!(admitted(&limiter(&store, "10/second name=login"), "user:42", 1).await, 1);
        let name = key_of(&store, "10/second name=login", "user:42");
        assert_eq!(name, "tollgate:1:|gcra:1000000:n:login|user:42");
        assert!(server.says(&format!("mg {name} t")).starts_with("HD t"), "{name}");
    });
}

#[test]
fn clear_forgets_the_keys_of_its_limit_and_no_others() {
    run(async {
        let servers = [Server::start(&[]), Server::start(&[])];
        let url =
            format!("memcached://127.0.0.1:{},127.0.0.1:{}", servers[0].port, servers[1].port);
        let store = patient(url).await;
        let one = limiter(&store, "1/hour");
        let other = limiter(&store, "1/hour name=other");
        let shop = store.limiter_in("shop", "1/hour").unwrap().deadline(LONG);
        // More than one slice, and some too long for a name.
        let keys: Vec<String> = (0..2500).map(|n| format!("{n}{}", "x".repeat(n / 7))).collect();
        for limiter in [&one, &other, &shop] {
            let hits = limiter.hit_each(&keys).await.unwrap();
            assert!(hits.iter().all(tollgate::Decision::allowed));
        }
        assert_eq!(servers[0].says("set tollgate 0 0 1\r\nx"), "STORED");
        let items = || servers.iter().map(|server| server.stat("curr_items")).sum::<u64>();
        assert_eq!(items(), 7501);
        one.clear().await.unwrap();
        assert_eq!(items(), 5001);
        assert!(one.hit_each(&keys).await.unwrap().iter().all(tollgate::Decision::allowed));
        assert!(!other.hit_each(&keys).await.unwrap().iter().any(tollgate::Decision::allowed));
        store.clear_namespace("shop").await.unwrap();
        assert!(shop.hit_each(&keys).await.unwrap().iter().all(tollgate::Decision::allowed));
        store.clear_namespace("").await.unwrap();
        assert_eq!(items(), 2501);
    });
}

#[test]
fn two_concurrent_clears_both_end() {
    run(async {
        let server = Server::start(&[]);
        let limiters: Vec<_> = {
            let store = patient(server.url()).await;
            (0..4).map(|n| limiter(&store, &format!("1/hour name=n{n}"))).collect()
        };
        for limiter in &limiters {
            assert_eq!(admitted(limiter, "key", 1).await, 1);
        }
        let clear = |n: usize| {
            let limiter = limiters[n].clone();
            tokio::spawn(async move { limiter.clear().await })
        };
        for cleared in [clear(0), clear(1), clear(2), clear(3)] {
            cleared.await.unwrap().unwrap();
        }
        assert_eq!(server.stat("curr_items"), 0);
    });
}

#[test]
fn a_server_that_lists_nothing_is_an_error_of_clear() {
    run(async {
        let server = Server::start(&["-X"]);
        let limiter = limiter(&patient(server.url()).await, "1/hour");
        assert_eq!(admitted(&limiter, "key", 2).await, 1);
        let error = limiter.clear().await.unwrap_err();
        assert!(error.to_string().contains("cannot list its keys"), "{error}");
        assert_eq!(admitted(&limiter, "key", 1).await, 0);
    });
}
