//! Keys with other values than states, and clocks that differ.

use std::time::Duration;

use tollgate::{Algorithm, ErrorKind};

use crate::bare::Bare;
use crate::client::{limiter, patient, run};
use crate::servers::Member;

#[test]
fn a_key_that_holds_no_state_is_an_error_of_the_store_and_stays_as_it_is() {
    run(async {
        let member = Member::start(&[]);
        let (store, bare) = (patient(member.url()).await, Bare::to(member.port));
        for algorithm in Algorithm::PERIODIC {
            let text = format!("5/365 days {algorithm}");
            let (limited, key) =
                (limiter(&store, &text), store.key_of("", &text[..], "key").unwrap());
            bare.put(key.clone(), b"what is this").await;
            let before = bare.read(key.clone()).await;
            for error in [
                limited.hit("key").await.unwrap_err(),
                limited.peek("key").await.unwrap_err(),
                limited.charge("key", 2).await.unwrap_err(),
                limited.set("key", 2).await.unwrap_err(),
            ] {
                let kind = (error.kind(), error.is_transient());
                assert_eq!(kind, (ErrorKind::Store, false), "{error}");
            }
            assert_eq!(bare.read(key).await, before, "{text}");
            limited.clear().await.unwrap();
            assert!(limited.hit("key").await.unwrap().allowed());
        }
    });
}

#[test]
fn a_group_that_is_too_large_for_a_transaction_is_a_clear_error_and_charges_nothing() {
    run(async {
        let member = Member::start(&["--max-txn-ops", "6"]);
        let store = patient(member.url()).await;
        let limited = limiter(&store, "5/365 days");
        let group = |count: usize| {
            let limited = limited.clone();
            async move {
                let keys: Vec<String> = (0..count).map(|n| format!("key {n}")).collect();
                let items: Vec<_> = keys.iter().map(|key| limited.item(key, 1)).collect();
                tollgate::shared::hit_all_shared(&items, None).await
            }
        };
        let error = group(7).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Store, false), "{error}");
        assert!(error.to_string().contains("--max-txn-ops"), "{error}");
        assert_eq!(limited.usage("key 0").await.unwrap(), 0);
        // Two for each key: its revision and its lease.
        for _ in 0..5 {
            assert!(group(3).await.unwrap().allowed());
        }
        assert!(!group(3).await.unwrap().allowed());
        assert!(Duration::ZERO < group(3).await.unwrap().retry_after().unwrap());
    });
}
