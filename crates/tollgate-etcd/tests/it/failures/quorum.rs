//! Loss of one or two of three members.

use super::Load;
use crate::client::{
    LONG, Rules, admitted, answers, eventually, hasty, in_time, limiter, patient, run,
};
use crate::servers::Cluster;

const LIMIT: &str = "3000/365 days";

#[test]
fn when_the_leader_is_killed_under_load_the_count_stays_exact() {
    run(async {
        let mut cluster = Cluster::start();
        let leader = cluster.leader();
        let store = hasty(cluster.url_from(leader)).await;
        let limited = limiter(&store, LIMIT);
        let load = Load::on(&limited, "key", 8);
        eventually("some pass", || async { load.passed() > 20 }).await;
        cluster.members[leader].kill();
        let before = load.passed();
        eventually("some pass again", || async { load.passed() > before + 20 }).await;
        let passed = load.end().await;
        let other = limiter(&patient(cluster.url()).await, LIMIT);
        assert!(other.usage("key").await.unwrap() >= passed, "{passed} passed");
        let taken = other.take("key", 3_000).await.unwrap().charged();
        assert!(passed + taken <= 3_000, "{passed} passed and {taken} were left");
    });
}

#[test]
fn when_the_leader_is_frozen_another_member_is_asked() {
    run(async {
        let cluster = Cluster::start();
        let leader = cluster.leader();
        let store = hasty(cluster.url_from(leader)).await;
        let limited = limiter(&store, "10/365 days");
        assert_eq!(admitted(&limited, "key", 4).await, 4);
        cluster.members[leader].freeze();
        Rules::on(&store).hold_without_the_store("away").await;
        eventually("another one answers", || async { in_time(limited.hit("other")).await.is_ok() })
            .await;
        let more = admitted(&limited, "key", 10).await;
        assert_eq!(more, 6);
        cluster.members[leader].thaw();
    });
}

#[test]
fn when_a_follower_is_killed_only_its_own_calls_fail() {
    run(async {
        let mut cluster = Cluster::start();
        let follower = (cluster.leader() + 1) % 3;
        let store = patient(cluster.url_from(follower)).await;
        let elsewhere = patient(cluster.url_from(follower + 1)).await;
        let (limited, other) = (limiter(&store, "30/365 days"), limiter(&elsewhere, "30/365 days"));
        assert_eq!(admitted(&limited, "key", 5).await, 5);
        cluster.members[follower].kill();
        assert_eq!(admitted(&other, "key", 5).await, 5);
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 40).await, 20);
    });
}

#[test]
fn without_a_majority_there_are_no_decisions_and_with_one_again() {
    run(async {
        let mut cluster = Cluster::start();
        let store = hasty(cluster.url()).await;
        let limited = limiter(&store, "10/365 days");
        assert_eq!(admitted(&limited, "key", 4).await, 4);
        for member in &mut cluster.members[1..] {
            member.kill();
        }
        Rules::on(&store).hold_without_the_store("away").await;
        // It could answer from its own data, but must not, because they may be old.
        assert!(in_time(limited.within(LONG / 4).usage("key")).await.is_err());
        cluster.members[1].restart();
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "key", 10).await, 6);
    });
}
