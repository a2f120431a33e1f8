//! Tokens that end: a restarted member has forgotten them, and so has one whose users were changed.

use crate::client::{LONG, admitted, answers, hasty, limiter, run, stats};
use crate::servers::Member;

const LIMIT: &str = "30/365 days";

fn url(member: &Member) -> String {
    format!("etcd://alice:open%20sesame@{}", member.address())
}

#[test]
fn an_expired_token_is_renewed_without_an_error() {
    run(async {
        let member = Member::start_with_users(&[]);
        let store = hasty(url(&member)).await;
        let limited = limiter(&store, LIMIT);
        let mut passed = admitted(&limited, "key", 5).await;
        for _ in 0..3 {
            // When authentication is enabled again, the member has no tokens.
            member.ctl(&["auth", "disable"]);
            member.run_without_user(&["auth", "enable"]);
            let burst = (0..5).map(|_| {
                let limited = limited.clone();
                tokio::spawn(
                    async move { limited.within(LONG).hit("key").await.unwrap().allowed() },
                )
            });
            for hit in burst.collect::<Vec<_>>() {
                passed += u64::from(hit.await.unwrap());
            }
        }
        assert_eq!(passed, 20);
        assert_eq!(limited.within(LONG).usage("key").await.unwrap(), 20);
        assert_eq!((stats(&store).lost, stats(&store).refused), (0, 0), "{:?}", stats(&store));
    });
}

#[test]
fn a_restarted_member_is_logged_in_to_anew() {
    run(async {
        let mut member = Member::start_with_users(&[]);
        let store = hasty(url(&member)).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        member.kill();
        member.restart();
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 40).await, 25);
    });
}

#[test]
fn a_password_that_was_changed_is_an_error_until_it_is_changed_back() {
    run(async {
        let member = Member::start_with_users(&[]);
        let store = hasty(url(&member)).await;
        let limited = limiter(&store, LIMIT);
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        member.ctl(&["user", "delete", "alice"]);
        let error = limited.within(LONG).hit("key").await.unwrap_err();
        assert!(!error.is_transient(), "{error}");
        member.ctl(&["user", "add", "alice:open sesame"]);
        member.ctl(&["user", "grant-role", "alice", "limits"]);
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 40).await, 25);
    });
}
