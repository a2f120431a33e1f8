//! A file that cannot grow: the system rejects allocations, as on a full disk.

use std::process::Command;

use tollgate::shared::{SharedLimiter, SharedStore};
use tollgate::{Error, ErrorKind};
use tollgate_durable::{Durable, Level};
use tollgate_testkit::block_on;
use tollgate_testservers::{Directory, eventually};

use crate::disk::Disk;

/// The environment variable that gives the process with limited space its address.
const ADDRESS: &str = "TOLLGATE_DURABLE_FULL";

/// A unit comes back after 53 minutes, which is longer than a slow machine takes.
const LIMIT: &str = "1000000/36500 days";
const KNOWN: u64 = 81;
const ROUNDS: u64 = 10;

/// The longest keys that are stored as they are, so that the file is soon full.
fn key(number: u64) -> String {
    format!("{number:0250}")
}

/// Runs in the process with limited space: fills the file with fresh keys, then hits known and
/// fresh keys, and continues when there is room again. It prints its progress.
#[test]
fn a_process_without_room() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = Durable::open(address).unwrap();
    let limiter = store.limiter(LIMIT).unwrap();
    let hit = |number: u64| block_on(limiter.hit(key(number))).map(|decision| decision.allowed());
    (0..KNOWN).for_each(|number| assert!(hit(number).unwrap()));
    block_on(store.flush()).unwrap();
    let told = fill(&store, &limiter);
    for round in 0..ROUNDS {
        // Each round hits one new key beside known ones.
        let error = hit(1_000_000 + round).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.is_transient() && error.to_string().contains("no room"), "{error}");
        for number in 0..KNOWN {
            assert!(hit(number).unwrap_or_else(|error| panic!("{round}, {number}: {error}")));
        }
    }
    assert!(matches!(hit(1_000_000), Err(error) if error.kind() == ErrorKind::Store));
    assert!(block_on(limiter.peek(key(1_000_000))).unwrap().allowed(), "a peek needs no record");
    let error = block_on(store.check()).unwrap_err();
    assert!(error.to_string().contains("no room for new keys"), "{error}");
    assert_eq!(store.guard().stats().opened, 0, "a breaker opened");
    println!("\ntold {told}");

    let pid = std::process::id().to_string();
    let mut prlimit = Command::new("prlimit");
    let prlimit = prlimit.args(["--pid", &pid, "--fsize=unlimited:unlimited"]);
    assert!(prlimit.status().unwrap().success());
    eventually("new keys are written again", || hit(2_000_000).is_ok());
    block_on(store.check()).unwrap();
    store.close().unwrap();
}

/// Hits fresh keys until one gets an error. Returns how many were answered.
fn fill(store: &Durable, limiter: &SharedLimiter<Durable>) -> u64 {
    let say = |error: &Error| format!("{:?}: {error}", error.kind());
    for number in KNOWN..100_000 {
        if let Err(error) = block_on(limiter.hit(key(number))) {
            println!("\nfirst {}", say(&error));
            return number;
        }
        if number % 10 == 0 {
            // Without the flush, the level `reserve` would be far ahead of its file.
            let _ = block_on(store.flush());
        }
    }
    panic!("the file grew without end");
}

fn known_keys_are_answered(level: &str) {
    let directory = Directory::new();
    let path = directory.path().join("limits").display().to_string();
    // The size is limited in blocks of 512 bytes; the signal that would end the process is ignored.
    let script = "trap '' XFSZ; ulimit -S -f 5000; exec \"$0\" full::a_process_without_room --exact --nocapture";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(ADDRESS, format!("durable:{path}?level={level}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{all}");
    let after = |word: &str| said.lines().find_map(|line| line.strip_prefix(word));
    let told: u64 = after("told ").unwrap_or_else(|| panic!("{all}")).parse().unwrap();
    assert!(told > KNOWN + 20, "{all}");
    // The file opens, and nothing is missing.
    let store = Durable::open(&path).unwrap();
    let limiter = store.limiter(LIMIT).unwrap();
    for number in 0..told {
        let hits = if number < KNOWN { 1 + ROUNDS } else { 1 };
        let used = block_on(limiter.usage(key(number))).unwrap();
        assert_eq!(used, hits, "{number} of {told}");
    }
}

#[test]
fn on_a_full_disk_keys_in_the_file_are_answered_at_the_level_sync() {
    known_keys_are_answered("sync");
}

#[test]
fn on_a_full_disk_keys_in_the_file_are_answered_at_the_level_reserve() {
    known_keys_are_answered("reserve&interval=20ms");
}

/// The free space at the end depends on the keys and on how many were written together.
#[test]
fn known_keys_are_answered_however_the_file_was_filled() {
    for (len, together) in [(8, 300), (31, 60), (100, 30), (177, 5), (250, 2), (250, 90)] {
        let disk = Disk::with_room(3 << 20);
        let store = disk.builder().level(Level::Sync).open().unwrap();
        let limiter = store.limiter(LIMIT).unwrap();
        let key = |number: u64| format!("{number:0len$}");
        let mut next = 0;
        let refused = loop {
            let keys: Vec<_> = (next..next + together).map(key).collect();
            if let Err(error) = block_on(limiter.hit_each(&keys)) {
                break error;
            }
            next += together;
        };
        assert!(refused.to_string().contains("no room"), "{len}, {together}: {refused}");
        for number in (0..next).step_by(usize::try_from(next / 100 + 1).unwrap()) {
            let hit = block_on(limiter.hit(key(number)));
            assert!(hit.is_ok(), "{len}, {together}: {number} of {next}: {hit:?}");
        }
        assert_eq!(store.guard().stats().opened, 0, "{len}, {together}: a breaker opened");
    }
}
