//! How long etcd keeps the state of a key.

use std::collections::BTreeSet;

use tollgate::Algorithm;

use crate::bare::Bare;
use crate::client::{admitted, limiter, patient, run};
use crate::servers::Member;

#[test]
fn keys_share_a_few_leases() {
    run(async {
        let member = Member::start(&[]);
        let (store, bare) = (patient(member.url()).await, Bare::to(member.port));
        let mut leases = BTreeSet::new();
        for algorithm in Algorithm::PERIODIC {
            for period in
                ["1 second", "10 seconds", "1 minute", "20 minutes", "1 hour", "5 hours", "1 day"]
            {
                let text = format!("100/{period} {algorithm}");
                let limited = limiter(&store, &text);
                for n in 0..4 {
                    let _ = limited.charge(n, 100).await.unwrap();
                    let key = store.key_of("", &text[..], n).unwrap();
                    leases.insert(bare.read(key).await.unwrap().lease);
                }
            }
        }
        // The lives range from seconds to two days: at most one lease for each power of two beyond
        // a minute.
        assert!(leases.len() <= 14, "{leases:?}");
        assert_eq!(leases, bare.leases().await.into_iter().collect());
    });
}

#[test]
fn a_state_of_a_millisecond_is_deleted_within_two_minutes() {
    run(async {
        let member = Member::start(&[]);
        let (store, bare) = (patient(member.url()).await, Bare::to(member.port));
        assert_eq!(admitted(&limiter(&store, "1/millisecond"), "key", 1).await, 1);
        let [lease] = bare.leases().await[..] else { panic!("one lease") };
        assert!(bare.seconds_left(lease).await <= 120);
    });
}

#[test]
fn a_lost_lease_is_granted_again() {
    run(async {
        let member = Member::start(&[]);
        let (store, bare) = (patient(member.url()).await, Bare::to(member.port));
        let limited = limiter(&store, "5/365 days fixed-window-per-key");
        assert_eq!(admitted(&limited, "key", 2).await, 2);
        let [lease] = bare.leases().await[..] else { panic!("one lease") };
        bare.revoke(lease).await;
        // The lease's keys are gone with it. No call gets an error.
        assert_eq!(admitted(&limited, "key", 7).await, 5);
        assert_eq!(admitted(&limited, "other", 7).await, 5);
        let [anew] = bare.leases().await[..] else { panic!("one lease") };
        assert_ne!(lease, anew);
    });
}

#[test]
fn a_state_that_needs_longer_gets_a_lease_that_lasts() {
    run(async {
        let member = Member::start(&[]);
        let (store, bare) = (patient(member.url()).await, Bare::to(member.port));
        let limited = limiter(&store, "1/hour burst=100");
        let key = store.key_of("", "1/hour burst=100", "key").unwrap();
        for used in [1, 10, 100] {
            let _ = limited.set("key", used).await.unwrap();
            let lease = bare.read(key.clone()).await.unwrap().lease;
            let (left, needed) =
                (bare.seconds_left(lease).await, i64::try_from(used).unwrap() * 3_600);
            assert!((needed..=2 * needed + 3_600).contains(&left), "{left} s left of {needed}");
        }
        // A long lease does not keep a state that ends soon.
        let _ = limited.set("key", 1).await.unwrap();
        let lease = bare.read(key.clone()).await.unwrap().lease;
        assert!(bare.seconds_left(lease).await <= 3 * 3_600);
        let _ = limited.set("key", 0).await.unwrap();
        assert_eq!(bare.read(key).await, None);
    });
}
