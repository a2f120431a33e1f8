//! Rules that change while the server runs.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_testservers::{eventually, free_port};

use super::Server;
use crate::resp::{Client, Value};

fn api(quota: u32) -> String {
    format!("[limits]\napi = '{quota}/day'\n")
}

#[test]
fn a_new_quota_applies_and_the_counts_stay() {
    // One window for a century, so that no window ends during the test.
    let api = |quota: u32| {
        format!("limits.api = '{quota} per 5000 weeks fixed-window'\nlimits.gcra = '{quota}/day'\n")
    };
    let server = Server::told(&api(3));
    let mut client = server.client();
    for rule in ["api", "api", "gcra", "gcra", "gcra"] {
        client.ask(&format!("TG.HIT {rule} alice"));
    }
    server.put("tollgate.toml", &api(5));
    server.eventually_has("api", 5);
    assert_eq!(client.ask("TG.USAGE api alice").integer(), 2);
    // GCRA counts in time: a client that had used everything has still used everything.
    assert_eq!(client.ask("TG.USAGE gcra alice").integer(), 5);
    // Written in place, as a shell does.
    server.write("tollgate.toml", &api(50));
    server.eventually_has("api", 50);
    assert_eq!(client.ask("TG.USAGE api alice").integer(), 2);
}

#[test]
fn a_broken_file_changes_nothing_and_is_reported() {
    let server = Server::told(&api(3));
    server.put("tollgate.toml", "[limits]\napi = '3/fortnight'\n");
    server.logged("tollgate.toml:2:10: limits.api: at 2: found \"fortnight\"");
    server.logged("the old rules stay");
    server.eventually_has("api", 3);
    let metrics = server.admin("/metrics");
    assert!(metrics.contains("tollgate_reloads_total{outcome=\"failed\"} 1"), "{metrics}");
    assert!(metrics.contains("tollgate_config_in_force 0"), "{metrics}");
    assert!(server.admin("/rules").contains("fortnight"));
    // An empty file is about to be written, and a deleted file may come back.
    server.put("tollgate.toml", "");
    server.logged("the file is empty");
    std::fs::remove_file(server.path("tollgate.toml")).unwrap();
    server.logged("No such file");
    server.eventually_has("api", 3);
    server.put("tollgate.toml", &api(4));
    server.eventually_has("api", 4);
    assert!(server.admin("/metrics").contains("tollgate_config_in_force 1"));
}

#[test]
fn a_limit_that_the_store_cannot_hold_is_refused_too() {
    let config = |limit: &str| format!("store.url = 'atomic:'\nlimits.api = '{limit}'\n");
    let server = Server::told(&config("3/day"));
    server.put("tollgate.toml", &config("4/day moving-window"));
    server.logged("Atomic cannot hold a log of hits");
    server.eventually_has("api", 3);
}

#[test]
fn sighup_reloads() {
    let server = Server::told(&api(3));
    server.process.signal("HUP");
    server.logged("SIGHUP: the configuration is read again");
    server.put("tollgate.toml", &api(4));
    server.process.signal("HUP");
    server.eventually_has("api", 4);
}

/// Kubernetes mounts a file as a link to a link to a directory, which has a new name for each
/// version.
#[test]
fn a_swapped_config_map_is_loaded() {
    let server = Server::new();
    let version = |number: u32, quota: u32| {
        server.write(&format!("mount/..v{number}/tollgate.toml"), &api(quota));
        symlink(format!("..v{number}"), server.path("mount/..tmp")).unwrap();
        std::fs::rename(server.path("mount/..tmp"), server.path("mount/..data")).unwrap();
    };
    version(1, 11);
    symlink("..data/tollgate.toml", server.path("mount/tollgate.toml")).unwrap();
    let path = server.path("mount/tollgate.toml");
    let server = {
        let running = server;
        running.run(&["--config", path.to_str().unwrap()], |_| {})
    };
    server.eventually_has("api", 11);
    for number in 2..5 {
        let quota = 10 + number;
        server.write(&format!("mount/..v{number}/tollgate.toml"), &api(quota));
        symlink(format!("..v{number}"), server.path("mount/..tmp")).unwrap();
        std::fs::rename(server.path("mount/..tmp"), server.path("mount/..data")).unwrap();
        std::fs::remove_dir_all(server.path(&format!("mount/..v{}", number - 1))).unwrap();
        server.eventually_has("api", quota.into());
    }
}

#[test]
fn new_and_deleted_files_of_an_included_directory_are_noticed() {
    let server = Server::new();
    server.write("rules/a.toml", "limits.a = '1/day'");
    server.write("tollgate.toml", "include = 'rules'");
    let server = server.run(&["--config", "tollgate.toml"], |_| {});
    server.eventually_has("a", 1);
    server.write("rules/b.yaml", "limits: { b: 2/day }");
    server.eventually_has("b", 2);
    std::fs::remove_file(server.path("rules/a.toml")).unwrap();
    let mut client = server.client();
    eventually("the rule is gone", || matches!(client.ask("TG.PEEK a x"), Value::Error(_)));
    // A directory that the main file starts to include is watched from then on.
    server.write("more/c.toml", "limits.c = '3/day'");
    server.put("tollgate.toml", "include = ['rules', 'more']");
    server.eventually_has("c", 3);
    server.write("more/c.toml", "limits.c = '4/day'");
    server.eventually_has("c", 4);
}

#[test]
fn settings_that_need_a_restart_are_logged_and_the_rules_replaced() {
    let server = Server::told(&api(3));
    server.put("tollgate.toml", &format!("store.prefix = 'x'\nlog.level = 'debug'\n{}", api(4)));
    server.logged("store, log");
    server.eventually_has("api", 4);
    // The rules are in force a moment before the warning is logged.
    eventually("the restart is told", || {
        server.admin("/rules").contains("\"needs_restart\":[\"store\",\"log\"]")
    });
}

#[test]
fn on_failure_changes_with_the_rules() {
    let nobody = free_port();
    let config = |on_failure: &str| {
        format!(
            "[store]\nurl = 'redis://127.0.0.1:{nobody}/'\non_failure = '{on_failure}'\n[limits]\napi = '3/day'\n"
        )
    };
    let server = Server::told(&config("closed"));
    let mut client = server.client();
    let allowed = |client: &mut Client, limit: &str| {
        client.ask(&format!("TG.HIT {limit} x")).field("allowed").integer()
    };
    for limit in ["api", "9/day"] {
        assert_eq!(allowed(&mut client, limit), 0);
    }
    server.put("tollgate.toml", &config("open"));
    server.logged("new rules are in force");
    for limit in ["api", "9/day"] {
        assert_eq!(allowed(&mut client, limit), 1, "{limit}");
    }
}

/// Real traffic while the rules change all the time: either the old or the new rules answer each
/// hit, and none is lost or counted twice.
#[test]
fn a_reload_under_load_loses_no_hit() {
    const CLIENTS: usize = 4;
    const CHANGES: u32 = 15;
    // One window for a century, so that the count is exact.
    let config = |quota: u32| format!("limits.api = '{quota} per 5000 weeks fixed-window'\n");
    let quotas = |round: u32| 1_000_000 + round;
    let server = Server::told(&config(quotas(0)));
    let over = AtomicBool::new(false);
    let hits: u64 = std::thread::scope(|scope| {
        let load = || {
            let (mut client, mut hits, mut last) = (server.client(), 0, 0);
            while !over.load(Ordering::Relaxed) {
                let answer = client.ask("TG.HIT api everybody");
                assert_eq!(answer.field("allowed").integer(), 1, "{answer:?}");
                let limit = answer.field("limit").integer();
                assert!(limit >= last && limit <= quotas(CHANGES).into(), "{limit} after {last}");
                (hits, last) = (hits + 1, limit);
            }
            (hits, last)
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(load)).collect();
        for round in 1..=CHANGES {
            server.put("tollgate.toml", &config(quotas(round)));
            server.eventually_has("api", quotas(round).into());
            if round % 5 == 0 {
                server.put("tollgate.toml", "limits.api = 'nonsense'");
                server.logged("limits.api");
            }
        }
        over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap().0).sum()
    });
    assert!(hits > u64::from(CHANGES), "{hits}");
    let used = server.client().ask("TG.USAGE api everybody").integer();
    assert_eq!(u64::try_from(used).unwrap(), hits);
}
