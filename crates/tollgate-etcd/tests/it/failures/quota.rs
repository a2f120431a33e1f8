//! A member whose storage quota is used up.

use tollgate::ErrorKind;

use crate::bare::Bare;
use crate::client::{LONG, Rules, admitted, answers, hasty, in_time, limiter, run};
use crate::servers::Member;

#[test]
fn a_full_etcd_gives_errors_and_never_a_decision() {
    run(async {
        let member = Member::start(&["--quota-backend-bytes", "1000000"]);
        let (store, bare) = (hasty(member.url()).await, Bare::to(member.port));
        let limited = limiter(&store, "3/365 days");
        assert_eq!(admitted(&limited, "key", 1).await, 1);
        let filled =
            (0..100).take_while(|_| member.try_ctl(&["put", "filler", &"x".repeat(50_000)]));
        assert!(filled.count() < 100, "there is no end to its room");
        for key in ["new", "key"] {
            let error = in_time(limited.within(LONG).hit(key)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("disarm the alarm"), "{error}");
        }
        // It can still report usage, but a check finds that nothing can be charged.
        let patient = limiter(&store, "3/365 days").deadline(LONG);
        let error = in_time(patient.check()).await.unwrap_err();
        assert!(error.to_string().contains("disarm the alarm"), "{error}");
        assert_eq!(limited.within(LONG).usage("key").await.unwrap(), 1);
        Rules::on(&store).hold_without_the_store("away").await;
        member.ctl(&["compact", &member.revision().to_string()]);
        member.ctl(&["defrag"]);
        member.ctl(&["alarm", "disarm"]);
        answers(&limited, "key").await;
        assert_eq!(admitted(&limited, "new", 5).await, 3);
        assert_eq!(admitted(&limited, "key", 5).await, 2);
        assert!(bare.read(b"filler".to_vec()).await.is_some());
    });
}
