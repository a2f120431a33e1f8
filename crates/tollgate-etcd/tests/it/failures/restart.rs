//! A killed member that comes back, with its data or without.

use tollgate::ErrorKind;

use super::Load;
use crate::bare::Bare;
use crate::client::{
    LONG, Rules, admitted, answers, eventually, hasty, in_time, limiter, patient, run,
};
use crate::servers::Member;

#[test]
fn answered_hits_survive_a_crash() {
    run(async {
        let mut member = Member::start(&[]);
        let store = hasty(member.url()).await;
        let limited = limiter(&store, "1000/365 days");
        let load = Load::on(&limited, "key", 4);
        eventually("some pass", || async { load.passed() > 20 }).await;
        member.kill();
        Rules::on(&store).hold_without_the_store("away").await;
        member.restart();
        answers(&limited, "other").await;
        let before = load.passed();
        eventually("some pass again", || async { load.passed() > before }).await;
        let passed = load.end().await;
        let other = limiter(&patient(member.url()).await, "1000/365 days");
        assert!(other.usage("key").await.unwrap() >= passed, "{passed} passed");
        let taken = other.take("key", 1_000).await.unwrap().charged();
        assert!(passed + taken <= 1_000, "{passed} passed and {taken} were left");
    });
}

#[test]
fn a_member_without_its_data_is_used_again() {
    run(async {
        let mut member = Member::start(&[]);
        let store = hasty(member.url()).await;
        let limited = limiter(&store, "5/365 days");
        // Versions and leases that do not exist after the restart.
        for key in ["a", "b", "c"] {
            assert_eq!(admitted(&limited, key, 3).await, 3);
        }
        member.restart_empty();
        answers(&limited, "other").await;
        for key in ["a", "b", "c", "d"] {
            assert_eq!(admitted(&limited, key, 7).await, 5, "{key}");
        }
        // Another process sees the same.
        let other = limiter(&patient(member.url()).await, "5/365 days");
        for key in ["a", "b", "c", "d"] {
            assert_eq!(other.usage(key).await.unwrap(), 5, "{key}");
        }
    });
}

#[test]
fn a_revision_from_before_a_data_loss_never_matches() {
    run(async {
        let mut member = Member::start(&[]);
        let bare = Bare::to(member.port);
        let store = hasty(member.url()).await;
        let (limited, key) =
            (limiter(&store, "5/365 days"), store.key_of("", "5/365 days", "key").unwrap());
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        let former = bare.read(key.clone()).await.unwrap().revision;
        member.restart_empty();
        // Another process comes first, and gets the same revision for another state.
        let other = limiter(&patient(member.url()).await, "5/365 days");
        let _ = other.charge("key", 4).await.unwrap();
        answers(&limited, "other").await;
        assert_eq!(bare.read(key).await.unwrap().revision, former);
        assert_eq!(limited.within(LONG).hit("key").await.unwrap().used(), 5);
        assert_eq!(admitted(&limited, "key", 3).await, 0);
    });
}

#[test]
fn a_member_known_to_be_dead_delays_no_call() {
    run(async {
        let mut member = Member::start(&[]);
        let store = hasty(member.url()).await;
        let limited = limiter(&store, "5/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        member.kill();
        eventually("it is known", || async {
            let error = in_time(limited.hit("key")).await.unwrap_err();
            error.kind() == ErrorKind::Unavailable
        })
        .await;
        for _ in 0..100 {
            let error = in_time(limited.within(LONG).hit("key")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    });
}
