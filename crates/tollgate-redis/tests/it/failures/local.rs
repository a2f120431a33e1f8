//! Hits that limiters admit locally while the server is away are charged to it when it is back.

use tollgate::Source;
use tollgate::shared::{OnFailure, Share};

use crate::client::{LONG, connect, eventually, hasty_guard, limiter, patient, run};
use crate::servers::Server;

/// Hits of a process with the whole limit in three outages, in which the server keeps its data.
/// Returns how many are admitted in all.
async fn admitted_in_outages(charge_local: bool) -> u64 {
    const LIMIT: &str = "100/365 days";
    let server = Server::start(&[]);
    let store = connect(server.url(), hasty_guard().charge_local(charge_local)).await;
    let limited = limiter(&store, LIMIT).deadline(LONG);
    let whole = OnFailure::Local(Share::one_of(1).unwrap());
    let limited = limited.on_failure(whole).unwrap();
    let mut admitted = 0;
    for _ in 0..3 {
        // Every write of a script is rejected before anything is executed.
        server.ok(&["CONFIG", "SET", "maxmemory", "1"]);
        for _ in 0..20 {
            let hit = limited.hit("key").await.unwrap();
            assert_eq!(hit.source(), Source::Fallback);
            admitted += u64::from(hit.allowed());
        }
        server.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        eventually("the server decides", || async {
            let peek = limited.peek("key").await.unwrap();
            peek.source() == Source::Store
        })
        .await;
        for _ in 0..10 {
            admitted += u64::from(limited.hit("key").await.unwrap().allowed());
        }
    }
    let other = limiter(&patient(server.url()).await, LIMIT);
    let used = other.usage("key").await.unwrap();
    assert_eq!(used, if charge_local { admitted } else { 30 });
    for _ in 0..100 {
        admitted += u64::from(other.hit("key").await.unwrap().allowed());
    }
    admitted
}

#[test]
fn charging_local_hits_keeps_the_limit_over_several_outages() {
    run(async {
        assert_eq!(admitted_in_outages(true).await, 100);
        assert_eq!(admitted_in_outages(false).await, 160);
    });
}
