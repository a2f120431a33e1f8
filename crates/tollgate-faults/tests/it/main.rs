//! The quick cells of the matrix, one test each: what is admitted stays within the limit, and the
//! store answers again.

use std::process::{Command, ExitStatus};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tollgate-faults"))
}

fn holds(store: &str, fault: &str) {
    let status = program().args(["--quick", "--store", store, "--fault", fault]).status();
    assert!(status.as_ref().is_ok_and(ExitStatus::success), "{store}, {fault}: {status:?}");
}

macro_rules! quick_cells {
    ($($test:ident: $store:literal, $fault:literal;)+) => {
        $(#[test] fn $test() { holds($store, $fault); })+

        #[test]
        fn each_quick_cell_is_a_test() {
            let listed = program().args(["--quick", "--list"]).output().unwrap().stdout;
            let tested = [$(concat!($store, " ", $fault)),+].join("\n");
            assert_eq!(String::from_utf8(listed).unwrap().trim(), tested);
        }
    };
}

quick_cells! {
    redis_holds_when_it_is_killed: "redis", "kill";
    redis_holds_when_its_scripts_are_flushed: "redis", "script-flush";
    postgres_holds_when_connections_are_reset: "postgres", "reset";
    memcached_holds_when_it_is_killed: "memcached", "kill";
    memcached_holds_when_a_clock_is_ahead: "memcached", "skew";
    etcd_holds_behind_a_black_hole: "etcd", "black-hole";
    durable_holds_when_its_process_is_killed: "durable", "kill";
    leases_hold_when_redis_is_stopped: "leased+redis", "stop";
    replicas_hold_when_nats_is_killed: "replicated+nats", "kill";
    replicas_hold_behind_a_black_hole: "replicated+redis", "black-hole";
}
