//! Several processes on one store. Claimed by `processes`.
//!
//! The rule starts its own test binary again, with the name of its own test and the address of the
//! store in the environment.

use std::process::{Child, Command, Stdio};

use super::concurrent::admitted_together;
use crate::ground::{Ground, START, limit};
use crate::subject::Subject;

/// The environment variable that gives child processes the address of the store.
const ADDRESS: &str = "TOLLGATE_TESTKIT_ADDRESS";
/// The environment variable that gives child processes the namespace.
const NAMESPACE: &str = "TOLLGATE_TESTKIT_NAMESPACE";

const CHILDREN: usize = 3;
const QUOTA: u64 = 150;
const FRESH_KEYS: u64 = 100;

/// Totals are exact whether or not the processes overlap in time: together they try three times as
/// many hits as pass.
const LIMITS: [&str; 8] = [
    "150/365 days",
    "150/365 days token-bucket",
    "150/365 days leaky-bucket",
    "150/365 days fixed-window",
    "150/365 days fixed-window-per-key",
    "150/365 days elastic-window",
    "150/365 days sliding-window",
    "150/365 days moving-window",
];

/// A limit with a ban: the processes try more hits than it takes to start the ban.
const BAN: &str = "50/365 days fixed-window-per-key; ban after=100/365 days for=365 days";
const HITS_BEFORE_BAN: u64 = 60;

/// What all processes together see of it: allowed hits, and denials before the one that starts it.
const BEFORE_BAN: [u64; 2] = [50, 99];

/// A child prints this, then what passed of each limit and of the fresh keys.
const SAYS: &str = "tollgate-testkit admitted:";

/// Several processes on one key admit exactly the limit together, and on fresh keys with a limit of
/// one exactly one each. `test` is the path of the test that runs this rule, `make` creates its
/// subject.
pub fn several_processes_admit_exactly_the_limit<S: Subject>(test: &str, make: impl FnOnce() -> S) {
    if let (Ok(address), Ok(namespace)) = (std::env::var(ADDRESS), std::env::var(NAMESPACE)) {
        let subject = S::connect(&address).expect("an address of Subject::address");
        return println!("\n{SAYS} {}", admitted(&Ground::at(&subject, &namespace)));
    }
    let subject = make();
    let address = subject.address().expect("`processes` is claimed: Subject::address");
    let ground = Ground::new(&subject);
    let children: Vec<Child> =
        (0..CHILDREN).map(|_| start(test, &address, &ground.namespace)).collect();
    let held = LIMITS.iter().filter(|text| ground.limited(&limit(text)).is_some()).count();
    let mut wanted = vec![QUOTA; held];
    wanted.push(FRESH_KEYS);
    if before_ban(&ground, 0).is_some() {
        wanted.extend(BEFORE_BAN);
    }
    let mut totals = vec![0_u64; wanted.len()];
    for child in children {
        let output = child.wait_with_output().expect("the child's output");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find_map(|line| line.strip_prefix(SAYS));
        let line = line.unwrap_or_else(|| {
            panic!("a child said nothing: {text}\n{}", String::from_utf8_lossy(&output.stderr))
        });
        let counts = line.split_whitespace().map(|count| count.parse::<u64>().expect("a count"));
        for (total, count) in totals.iter_mut().zip(counts) {
            *total += count;
        }
    }
    assert_eq!(
        totals, wanted,
        "admitted by {CHILDREN} processes, of {LIMITS:?}, of fresh keys, and before the ban of {BAN}"
    );
    for text in LIMITS {
        let Some(limited) = ground.limited(&limit(text)) else { continue };
        assert_eq!(limited.usage(START, "key"), QUOTA, "{text}: in use");
    }
}

fn start(test: &str, address: &str, namespace: &str) -> Child {
    // The path of the test without the name of the crate, as the test runner prints it.
    let test = test.split_once("::").map_or(test, |(_, path)| path);
    let binary = std::env::current_exe().expect("the path of this test");
    Command::new(binary)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .envs([(ADDRESS, address), (NAMESPACE, namespace)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child process")
}

/// Runs in a child: counts how many hits pass of each limit and of the fresh keys.
fn admitted<S: Subject>(ground: &Ground<'_, S>) -> String {
    let mut counts = Vec::new();
    for text in LIMITS {
        let Some(limited) = ground.limited(&limit(text)) else { continue };
        counts.push(admitted_together(&limited, "key", QUOTA).to_string());
    }
    let one = ground.limited(&limit("1/365 days")).expect("held by every store");
    let fresh = (0..FRESH_KEYS).map(|n| admitted_together(&one, ("fresh", n), 1)).sum::<u64>();
    counts.push(fresh.to_string());
    let before_ban = before_ban(ground, HITS_BEFORE_BAN).into_iter().flatten();
    counts.extend(before_ban.map(|count| count.to_string()));
    counts.join(" ")
}

/// How many hits pass, and how many are denied but not banned. `None` if the store has no bans, and
/// need not have any.
fn before_ban<S: Subject>(ground: &Ground<'_, S>, hits: u64) -> Option<[u64; 2]> {
    let policy = BAN.parse().unwrap_or_else(|error| panic!("{BAN}: {error}"));
    let limiter = ground.policy(&policy)?;
    let mut counts = [0; 2];
    for _ in 0..hits {
        let decided = ground.run(limiter.at(START).hit("banned"));
        let decided = decided.unwrap_or_else(|error| panic!("{BAN}: {error}"));
        if !decided.banned() {
            counts[usize::from(!decided.allowed())] += 1;
        }
    }
    Some(counts)
}
