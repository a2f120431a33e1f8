//! Processes that are killed at any moment, repeatedly on one file: it opens every time, and
//! contains at least the hits that were answered.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_durable::{Durable, Level};
use tollgate_testkit::block_on;
use tollgate_testservers::Directory;

/// The environment variable that gives the process that is killed its address.
const ADDRESS: &str = "TOLLGATE_DURABLE_ADDRESS";

const LIMITS: [&str; 6] = [
    "80000/365 days",
    "80000/365 days token-bucket",
    "80000/365 days fixed-window-per-key",
    "80000/365 days sliding-window",
    "80000/365 days moving-window",
    "80000/365 days elastic-window",
];
const KEYS: [&str; 2] = ["alice", "bob"];
const KILLS: u32 = 12;

/// The limit and the key: one line for each admitted hit.
fn line(limit: usize, key: usize) -> String {
    format!("admitted {limit} {key}\n")
}

/// Runs in the process that is killed: hits as fast as possible, and prints each admitted hit after
/// its answer.
#[test]
fn a_process_that_will_be_killed() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = Durable::builder(address).interval(Duration::from_millis(3)).open().unwrap();
    let limiters =
        LIMITS.map(|limit| store.limiter(limit).unwrap().deadline(Duration::from_secs(60)));
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            // No process is left to kill this one.
            std::process::exit(1);
        }
    };
    // From here on no key is new.
    for (limit, limiter) in limiters.iter().enumerate() {
        for (key, name) in KEYS.iter().enumerate() {
            assert!(block_on(limiter.hit(name)).unwrap().allowed());
            block_on(store.flush()).unwrap();
            say(&line(limit, key));
        }
    }
    std::thread::scope(|scope| {
        for (key, name) in KEYS.iter().enumerate() {
            let limiters = &limiters;
            scope.spawn(move || {
                for turn in 0.. {
                    let limit = turn % LIMITS.len();
                    if block_on(limiters[limit].hit(name)).unwrap().allowed() {
                        say(&line(limit, key));
                    }
                }
            });
        }
    });
}

/// Starts a process, kills it after this many lines, and counts all of its lines.
fn kill_after(lines: usize, address: &str, told: &mut [[u64; KEYS.len()]; LIMITS.len()]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["killed::a_process_that_will_be_killed", "--exact", "--nocapture"])
        .env(ADDRESS, address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = 0;
    for said in BufReader::new(child.stdout.take().unwrap()).lines() {
        let said = said.unwrap();
        // Skips the output of the test runner; the last line may be cut off.
        let mut words = said.split(' ').skip_while(|word| !word.ends_with("admitted")).skip(1);
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        if let (Some(limit), Some(key)) = (number(), number()) {
            told[limit][key] += 1;
            seen += 1;
            if seen == lines {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(seen >= lines, "it ended by itself after {seen} of {lines}");
}

fn survives(level: Level, seed: u64, reserve: u64) {
    let directory = Directory::new();
    let path = directory.path().join("limits").display().to_string();
    let address = format!("durable:{path}?level={level}");
    let mut told = [[0; KEYS.len()]; LIMITS.len()];
    let mut random = seed;
    for kill in 1..=KILLS {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        kill_after(usize::try_from(random >> 33).unwrap() % 600 + 1, &address, &mut told);
        let store = Durable::open(&address).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        for (limit, text) in LIMITS.iter().enumerate() {
            for (key, name) in KEYS.iter().enumerate() {
                let used = block_on(store.limiter(*text).unwrap().usage(name)).unwrap();
                let told = told[limit][key];
                assert!(used >= told, "kill {kill}, {text}, {name}: {used} used, {told} told");
                // One hit may have been in progress, and a reserve counts as used.
                let most = told + u64::from(kill) * (1 + reserve);
                assert!(used <= most, "kill {kill}, {text}, {name}: {used} used, {told} told");
            }
        }
        store.close().unwrap();
    }
}

#[test]
fn a_killed_process_keeps_answered_hits_at_the_default_level() {
    survives(Level::Reserve, 1, 10_000);
}

#[test]
fn a_killed_process_keeps_answered_hits_at_the_level_sync() {
    survives(Level::Sync, 2, 0);
}
