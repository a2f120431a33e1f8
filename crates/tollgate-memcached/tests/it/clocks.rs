//! Machines whose clocks differ.

use std::time::Duration;

use tollgate_memcached::Memcached;
use tollgate_testservers::calls::{Ahead, clocks_apart, patient_guard};

use crate::client::run;
use crate::server::Server;

#[test]
fn a_clock_that_is_ahead_takes_no_share_of_others() {
    run(async {
        let server = Server::start(&[]);
        for ahead in [Duration::from_millis(300), Duration::from_secs(2)] {
            let mut machines = Vec::new();
            for clock in [ahead, Duration::ZERO, Duration::ZERO] {
                let builder = Memcached::builder(server.url()).guard(patient_guard());
                machines.push(builder.clock(Ahead::by(clock)).connect().await.unwrap());
            }
            machines[0].clear_namespace("").await.unwrap();
            clocks_apart(machines, ahead).await;
        }
    });
}
