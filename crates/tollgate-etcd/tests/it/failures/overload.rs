//! More calls than the server can decide.

use std::time::Duration;

use tollgate::shared::Guard;
use tollgate_testservers::calls::{Distance, overload};

use crate::client::{connect, patient, run};
use crate::servers::Member;

#[test]
fn twice_as_many_calls_as_it_can_decide_do_not_slow_it_down() {
    run(async {
        let server = Member::start(&["--unsafe-no-fsync"]);
        let distance = Distance::to(server.port, Duration::from_millis(10), 150_000);
        let guard = Guard::builder().deadline(Duration::from_millis(150)).remember_denials(0);
        let far = connect(format!("etcd://127.0.0.1:{}", distance.port()), guard).await;
        overload(&far, &patient(server.url()).await).await;
    });
}
