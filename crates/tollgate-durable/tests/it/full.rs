//! A file that cannot grow: the system refuses to write, as on a full disk.

use std::process::Command;

use tollgate::shared::SharedStore;
use tollgate::{Error, ErrorKind};
use tollgate_durable::Durable;
use tollgate_testkit::block_on;
use tollgate_testservers::Directory;

/// Set for the process without room.
const ADDRESS: &str = "TOLLGATE_DURABLE_FULL";

/// The longest keys that are stored as they are, so that the file is soon full.
fn key(number: u64) -> String {
    format!("{number:0250}")
}

/// In the process without room: hits until it gets an error, and says how far it came.
#[test]
fn a_process_without_room() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = Durable::open(address).unwrap();
    let limiter = store.limiter("2/365 days").unwrap();
    let hit = |number: u64| block_on(limiter.hit(key(number)));
    let (told, error) = (0..100_000).find_map(|number| Some((number, hit(number).err()?))).unwrap();
    let say = |error: Error| format!("{:?}: {error}", error.kind());
    println!("\ntold {told}");
    println!("\nfirst {}", say(error));
    println!("\nthen {}", say(hit(told).unwrap_err()));
    println!("\ncheck {}", say(block_on(store.check()).unwrap_err()));
    println!("\nclose {}", store.close().is_err());
}

#[test]
fn a_full_disk_gives_errors_and_what_was_told_is_kept() {
    let directory = Directory::new();
    let path = directory.path().join("limits").display().to_string();
    // In blocks of 512 bytes; without the signal that would end the process.
    let script = "trap '' XFSZ; ulimit -f 2400; exec \"$0\" full::a_process_without_room --exact --nocapture";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(ADDRESS, format!("durable:{path}?level=sync"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let after = |word: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)))
    };
    let told: u64 = after("told ").parse().unwrap();
    assert!(told > 20, "{said}");
    assert!(after("first ").starts_with(&format!("{:?}", ErrorKind::Lost)), "{said}");
    assert!(after("then ").starts_with(&format!("{:?}", ErrorKind::Unavailable)), "{said}");
    assert!(after("check ").contains("File too large"), "{said}");
    assert_eq!(after("close "), "true", "{said}");
    // With room again the file opens, and nothing is missing.
    let store = Durable::open(&path).unwrap();
    let limiter = store.limiter("2/365 days").unwrap();
    for number in 0..told {
        assert_eq!(block_on(limiter.usage(key(number))).unwrap(), 1, "{number} of {told}");
    }
}
