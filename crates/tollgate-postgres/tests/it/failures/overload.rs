//! More calls than the server can decide.

use std::time::Duration;

use tollgate::ErrorKind;
use tollgate::shared::Guard;
use tollgate_postgres::Postgres;
use tollgate_testservers::calls::{Distance, overload, patient_guard};

use crate::client::{LONG, admitted, connect, limiter, patient, run, stats};
use crate::servers::Server;

fn url(distance: &Distance) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", distance.port())
}

#[test]
fn twice_as_many_calls_as_it_can_decide_do_not_slow_it_down() {
    run(async {
        let server = Server::start();
        let distance = Distance::to(server.port, Duration::from_millis(10), 40_000);
        let guard = Guard::builder().deadline(Duration::from_millis(150)).remember_denials(0);
        let far = connect(url(&distance), guard).await;
        overload(&far, &patient(server.url()).await).await;
    });
}

#[test]
fn a_call_that_cannot_be_answered_in_time_is_not_charged() {
    run(async {
        let server = Server::start();
        let distance = Distance::to(server.port, Duration::from_millis(150), u32::MAX);
        let builder = Postgres::builder(url(&distance)).connections(1).connect_timeout(LONG);
        let far = builder.guard(patient_guard()).connect().await.unwrap();
        let limited = limiter(&far, "100/365 days");
        assert_eq!(admitted(&limited, "key", 2).await, 2);
        for key in 0..100_u32 {
            let hit = limited.within(Duration::from_millis(100)).hit(key).await;
            // An idle connection sends the call, whose answer is lost. The next call finds it busy.
            if hit.unwrap_err().kind() == ErrorKind::Unavailable {
                assert_eq!(limited.usage(key).await.unwrap(), 0);
                assert_eq!((stats(&far).shed, stats(&far).opened), (1, 0));
                return;
            }
        }
        panic!("every call was sent");
    });
}
