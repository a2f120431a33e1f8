//! How long Redis keeps the state of a key.

use std::time::Duration;

use tollgate::Algorithm;
use tollgate_redis::Redis;

use crate::client::{key_of, limiter, patient, run};
use crate::servers::Server;

fn milliseconds_left(server: &Server, key: &str) -> i64 {
    let left = server.cli(&["PTTL", key]);
    left.parse().unwrap_or_else(|error| panic!("{left}: {error}"))
}

/// This store promises a second more than needed. The suite only checks a range.
fn lives_for(server: &Server, store: &Redis, text: &str, seconds: i64) {
    let left = milliseconds_left(server, &key_of(store, text, "key"));
    let most = seconds * 1_000 + 2_000;
    // Read a moment later, so less remains on a slow machine.
    assert!((seconds * 1_000 - 20_000..=most).contains(&left), "{text}: {left} ms left");
}

#[test]
fn states_live_until_they_are_fresh() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        // Each after one hit of cost 3.
        for (text, seconds) in [
            ("10/1000 seconds", 300),
            ("10/1000 seconds burst=100", 300),
            ("10/1000 seconds token-bucket", 300),
            ("10/1000 seconds leaky-bucket burst=5", 300),
            ("10/1000 seconds fixed-window-per-key", 1_000),
            ("10/1000 seconds elastic-window", 1_000),
            ("10/1000 seconds moving-window", 1_000),
            ("10/1000 seconds sliding-window", 2_000),
        ] {
            let hit = limiter(&store, text).hit_n("key", 3).await.unwrap();
            assert!(hit.allowed());
            let slack = if text.contains("bucket") { 100 } else { 0 };
            let left = milliseconds_left(&server, &key_of(&store, text, "key"));
            let wanted = seconds * 1_000;
            let range = wanted - 20_000..=wanted + 2_000 + slack * 1_000;
            assert!(range.contains(&left), "{text}: {left} ms left of {wanted}");
        }
        let hit = limiter(&store, "10/1000 seconds fixed-window").hit("key").await.unwrap();
        let seconds = i64::try_from(hit.reset_after().as_secs()).unwrap();
        lives_for(&server, &store, "10/1000 seconds fixed-window", seconds);
    });
}

#[test]
fn a_key_without_a_ttl_gets_one_with_the_next_charge() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in Algorithm::PERIODIC {
            let text = format!("5/hour {algorithm}");
            let (limited, key) = (limiter(&store, &text), key_of(&store, &text, "key"));
            assert!(limited.hit("key").await.unwrap().allowed());
            assert_eq!(server.cli(&["PERSIST", &key]), "1");
            assert_eq!(milliseconds_left(&server, &key), -1);
            let hit = limited.hit("key").await.unwrap();
            assert_eq!(hit.used(), 2, "{text}: its count is kept");
            let left =
                Duration::from_millis(u64::try_from(milliseconds_left(&server, &key)).unwrap());
            assert!(left + Duration::from_secs(20) > hit.reset_after(), "{text}: {left:?}");
        }
    });
}

#[test]
fn an_expired_state_that_is_still_stored_counts_as_fresh() {
    run(async {
        let server = Server::start(&[]);
        let store = patient(server.url()).await;
        for algorithm in Algorithm::PERIODIC {
            let text = format!("2/millisecond {algorithm}");
            let (limited, key) = (limiter(&store, &text), key_of(&store, &text, "key"));
            let _ = limited.charge("key", 2).await.unwrap();
            assert_eq!(server.cli(&["PERSIST", &key]), "1", "{text}: kept for a second more");
            // redis-cli took longer than the window.
            let hit = limited.hit("key").await.unwrap();
            assert_eq!((hit.allowed(), hit.used()), (true, 1), "{text}");
        }
    });
}
