//! A member that keeps its connections and does not respond.

use tollgate::ErrorKind;
use tollgate::shared::{Guard, OnFailure};

use super::Load;
use crate::client::{
    LONG, Rules, SHORT, admitted, answers, connect, eventually, hasty, in_time, limiter, patient,
    run, stats,
};
use crate::servers::Member;

#[test]
fn a_frozen_member_opens_the_breaker_and_a_thawed_one_closes_it() {
    run(async {
        let member = Member::start(&[]);
        let store = hasty(member.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        member.freeze();
        eventually("the breaker opens", || async {
            assert!(in_time(limited.hit("key")).await.is_err());
            stats(&store).opened > 0
        })
        .await;
        let lost = stats(&store).lost;
        assert!(lost > 0, "{:?}", stats(&store));
        Rules::on(&store).hold_without_the_store("away").await;
        eventually("calls are not even sent", || async {
            let _ = in_time(limited.hit("other")).await;
            stats(&store).skipped > 0
        })
        .await;
        member.thaw();
        answers(&limited, "key").await;
        eventually("the breaker closes", || async { stats(&store).closed > 0 }).await;
        let other = patient(member.url()).await;
        let used = limiter(&other, "20/365 days").usage("key").await.unwrap();
        assert!((5..=5 + lost).contains(&used), "{used} in use, 5 admitted and {lost} lost");
        let more = admitted(&limited, "key", 25).await;
        assert!(more <= 20 - used, "{more} more passed after {used} of 20");
    });
}

#[test]
fn callers_on_a_member_that_freezes_again_and_again_never_pass_the_limit() {
    const LIMIT: &str = "3000/365 days";
    run(async {
        let member = Member::start(&[]);
        let store = hasty(member.url()).await;
        let limited = limiter(&store, LIMIT);
        let load = Load::on(&limited, "key", 4);
        for _ in 0..3 {
            let answered = stats(&store).answered;
            eventually("some are answered", || async { stats(&store).answered > answered }).await;
            let lost = stats(&store).lost;
            member.freeze();
            eventually("some are lost", || async { stats(&store).lost > lost }).await;
            member.thaw();
        }
        answers(&limited, "other").await;
        let passed = load.end().await;
        let other = limiter(&patient(member.url()).await, LIMIT);
        let taken = other.take("key", 3_000).await.unwrap().charged();
        assert!(passed + taken <= 3_000, "{passed} passed and {taken} were left");
        assert_eq!(other.usage("key").await.unwrap(), 3_000);
    });
}

#[test]
fn a_hit_that_ran_late_is_an_error_and_is_counted_at_most_once() {
    run(async {
        let member = Member::start(&[]);
        // A breaker that stays closed, so that the connection stays.
        let guard = Guard::builder().deadline(SHORT).open_after(1_000_000);
        let store = connect(member.url(), guard).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        member.freeze();
        for _ in 0..3 {
            let error = in_time(limited.hit("key")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        }
        member.thaw();
        answers(&limited, "key").await;
        let used = limited.within(LONG).usage("key").await.unwrap();
        assert!((1..=4).contains(&used), "{used}");
        assert_eq!(admitted(&limited, "key", 25).await, 20 - used);
    });
}

#[test]
fn calls_without_a_caller_deadline_end_too() {
    run(async {
        let member = Member::start(&[]);
        let store = hasty(member.url()).await;
        let limited = limiter(&store, "20/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        member.freeze();
        assert!(in_time(limited.check()).await.is_err());
        assert!(in_time(limited.clear()).await.is_err());
        assert!(in_time(store.clear_namespace("")).await.is_err());
        assert!(in_time(limited.reset("key")).await.is_err());
        // No member answers: the caller gets the error, or the rule of the limiter applies.
        assert!(in_time(limited.wait("key", 1, LONG)).await.is_err());
        let open = limited.clone().on_failure(OnFailure::Open).unwrap();
        assert!(in_time(open.wait("key", 1, LONG)).await.unwrap().allowed());
        member.thaw();
        answers(&limited, "key").await;
        limited.clear().await.unwrap();
        assert_eq!(limited.within(LONG).usage("key").await.unwrap(), 0);
    });
}
