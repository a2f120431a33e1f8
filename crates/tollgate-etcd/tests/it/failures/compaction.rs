//! The store does not need anything that a compaction removes.

use crate::client::{admitted, limiter, patient, run};
use crate::servers::Member;

#[test]
fn compaction_changes_nothing() {
    run(async {
        let member = Member::start(&[]);
        let (one, two) = (patient(member.url()).await, patient(member.url()).await);
        let (one, two) = (limiter(&one, "40/365 days"), limiter(&two, "40/365 days"));
        for round in 0..5 {
            assert_eq!(admitted(&one, "key", 4).await, 4);
            // In some rounds `two` writes after `one`, so the last revision that `one` has seen is
            // compacted. In the other rounds it is the newest one and stays.
            if round % 2 == 0 {
                assert_eq!(admitted(&two, "key", 1).await, 1);
            }
            member.ctl(&["compact", &member.revision().to_string()]);
        }
        assert_eq!(admitted(&two, "key", 30).await, 17);
        assert_eq!(one.usage("key").await.unwrap(), 40);
    });
}
