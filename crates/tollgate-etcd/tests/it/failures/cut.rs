//! A cut connection: no bytes arrive, and no side notices.

use tollgate_testservers::calls::Line;

use super::Load;
use crate::client::{Rules, answers, eventually, hasty, limiter, patient, run, stats};
use crate::servers::Member;

#[test]
fn a_cut_connection_gives_errors_and_a_restored_one_the_limit() {
    const LIMIT: &str = "3000/365 days";
    run(async {
        let member = Member::start(&[]);
        let line = Line::to(member.port);
        let store = hasty(format!("etcd://127.0.0.1:{}", line.port())).await;
        let limited = limiter(&store, LIMIT);
        let load = Load::on(&limited, "key", 4);
        for away in ["away", "away again"] {
            let passed = load.passed();
            eventually("some pass", || async { load.passed() > passed }).await;
            let lost = stats(&store).lost;
            line.cut();
            eventually("some are lost", || async { stats(&store).lost > lost }).await;
            Rules::on(&store).hold_without_the_store(away).await;
            line.mend();
            answers(&limited, "other").await;
        }
        let passed = load.end().await;
        let behind = limiter(&patient(member.url()).await, LIMIT);
        let taken = behind.take("key", 3_000).await.unwrap().charged();
        assert!(passed + taken <= 3_000, "{passed} passed and {taken} were left");
    });
}
