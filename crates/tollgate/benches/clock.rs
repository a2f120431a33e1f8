//! Measures how long reading a clock takes in a hit, and how far the clocks differ from the
//! operating system's clock: `cargo xtask bench clock`.
#![expect(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::unwrap_used,
    reason = "this benchmark measures clocks"
)]

use std::hint::black_box;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime};

use tollgate::{Atomic, Clock, Direct, Limit, ManualClock, Memory, SystemClock, Timestamp};

/// The hits in a round. Rounds are short, so that other processes do not disturb all of them.
const HITS: u32 = 10_000;
const ROUNDS: usize = 2_000;
const STORES: [&str; 3] = ["Atomic", "Memory", "Direct"];
const CLOCKS: [&str; 4] = ["none", "operating system", "quanta", "SystemClock"];

/// A clock that reads the operating system's clock for each hit.
#[derive(Clone, Copy, Debug)]
struct Os {
    start: Instant,
    wall: Timestamp,
}

impl Os {
    fn new() -> Os {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Os { start: Instant::now(), wall: Timestamp::EPOCH + wall }
    }
}

impl Clock for Os {
    fn now(&self) -> Timestamp {
        self.wall + self.start.elapsed()
    }
}

/// A clock that calls `quanta::Clock::now`, as the library governor does.
#[derive(Clone, Debug)]
struct Quanta {
    clock: quanta::Clock,
    start: quanta::Instant,
    wall: Timestamp,
}

impl Quanta {
    fn new() -> Quanta {
        let clock = quanta::Clock::new();
        let start = clock.now();
        Quanta { clock, start, wall: Os::new().wall }
    }
}

impl Clock for Quanta {
    fn now(&self) -> Timestamp {
        self.wall + self.clock.now().duration_since(self.start)
    }
}

/// Returns a limit that admits every hit, so that all hits take the same path.
fn limit() -> Limit {
    Limit::per_second(1_000_000).burst(1_000_000_000).build().unwrap()
}

fn hits(store: &str, clock: &str) -> Box<dyn Fn(u32)> {
    match clock {
        "none" => hits_by(store, ManualClock::new(Os::new().wall)),
        "operating system" => hits_by(store, Os::new()),
        "quanta" => hits_by(store, Quanta::new()),
        _ => hits_by(store, SystemClock::new()),
    }
}

fn hits_by(store: &str, clock: impl Clock + 'static) -> Box<dyn Fn(u32)> {
    match store {
        "Atomic" => {
            let limiter = Atomic::builder().clock(clock).build().limiter(limit()).unwrap();
            Box::new(move |n| repeat(n, || limiter.hit(black_box("user:42")).allowed()))
        }
        "Memory" => {
            let limiter = Memory::builder().clock(clock).build().limiter(limit()).unwrap();
            Box::new(move |n| repeat(n, || limiter.hit(black_box("user:42")).allowed()))
        }
        _ => {
            let limiter = Direct::with_clock(limit(), clock).unwrap();
            Box::new(move |n| repeat(n, || limiter.hit().allowed()))
        }
    }
}

fn repeat(hits: u32, hit: impl Fn() -> bool) {
    for _ in 0..hits {
        black_box(hit());
    }
}

/// Makes the hits. Valgrind counts the instructions within this function.
#[inline(never)]
fn counted(hits: &dyn Fn(u32)) {
    hits(HITS);
    black_box(());
}

/// Prints the shortest time of several rounds for each store and clock. In each round all of them
/// take turns.
fn cost() {
    let mut all: Vec<_> = STORES
        .iter()
        .flat_map(|store| CLOCKS.map(|clock| (*store, clock, hits(store, clock), f64::MAX)))
        .collect();
    for _ in 0..ROUNDS {
        for (_, _, hits, best) in &mut all {
            let start = Instant::now();
            hits(HITS);
            *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(HITS));
        }
    }
    println!("| one hit, one thread | {} |", CLOCKS.join(" | "));
    println!("| --- | {} |", ["---:"; CLOCKS.len()].join(" | "));
    for store in STORES {
        let figures = |of: &str| all.iter().find(|a| a.0 == store && a.1 == of).map_or(0., |a| a.3);
        let ns: Vec<_> = CLOCKS.iter().map(|clock| format!("{:.1}", figures(clock))).collect();
        println!("| {store}, ns | {} |", ns.join(" | "));
        let counts: Vec<_> = CLOCKS.iter().map(|clock| instructions(store, clock)).collect();
        println!("| {store}, instructions | {} |", counts.join(" | "));
    }
}

/// Counts the instructions of a hit with valgrind. Valgrind hides the vDSO, so reading the
/// operating system's clock counts as one system call.
fn instructions(store: &str, clock: &str) -> String {
    let count = || {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .args(["--toggle-collect=*counted*"])
            .arg(std::env::current_exe().ok()?)
            .args(["count", store, clock])
            .output()
            .ok()?;
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = report.lines().find_map(|line| line.split_once("Collected :"))?;
        Some(line.1.trim().parse::<f64>().ok()? / f64::from(HITS))
    };
    count().map_or("no valgrind".to_owned(), |all| format!("{all:.0}"))
}

/// Prints how far the clocks differ from the operating system's clock after idle time, and whether
/// the difference grows.
fn error() {
    let (os, quanta, ours) = (Os::new(), Quanta::new(), SystemClock::new());
    let ahead = |clock: &dyn Clock| {
        // Keeps the reading with the shortest interval, because another process may run in between.
        let one = || {
            let (before, time, after) = (os.now(), clock.now(), os.now());
            let middle = u64::midpoint(before.as_micros(), after.as_micros());
            (after.since(before), time.as_micros().cast_signed() - middle.cast_signed())
        };
        (0..100).map(|_| one()).min().map_or(0, |(_, ahead)| ahead)
    };
    let first = (ahead(&quanta), ahead(&ours));
    println!("\n| µs ahead of the operating system's clock after | quanta | SystemClock |");
    println!("| --- | ---: | ---: |");
    let mut idle = Duration::ZERO;
    for seconds in [1, 4, 5, 50] {
        std::thread::sleep(Duration::from_secs(seconds));
        idle += Duration::from_secs(seconds);
        let error = (ahead(&quanta) - first.0, ahead(&ours) - first.1);
        println!("| {idle:?} | {} | {} |", error.0, error.1);
    }
    let day = 86_400. / idle.as_secs_f64();
    println!("| a day, extrapolated | {:.0} | 0 |", (ahead(&quanta) - first.0) as f64 * day);
}

/// Prints the largest step back that eight threads see, in microseconds.
fn steps_back() {
    let step_back = |clock: &(dyn Clock + Sync)| {
        let (latest, start) = (std::sync::atomic::AtomicU64::new(0), Barrier::new(8));
        let run = || {
            start.wait();
            let step = |_| {
                let before = latest.load(std::sync::atomic::Ordering::SeqCst);
                let time = clock.now().as_micros();
                latest.fetch_max(time, std::sync::atomic::Ordering::SeqCst);
                before.saturating_sub(time)
            };
            (0..300_000).map(step).max().unwrap_or(0)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or(0)
        })
    };
    println!("\n| largest step back between eight threads, µs | |");
    println!("| --- | ---: |");
    println!("| operating system | {} |", step_back(&Os::new()));
    println!("| quanta | {} |", step_back(&Quanta::new()));
    println!("| SystemClock | {} |", step_back(&SystemClock::new()));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "count", store, clock] => counted(&*hits(store, clock)),
        // `cargo test` builds this program but must not run the benchmark.
        [_, rest @ ..] if rest.contains(&"--test") || !rest.contains(&"--bench") => {}
        _ => {
            let start = Instant::now();
            let clock = SystemClock::new();
            println!("{clock:?}, created in {:?}\n", start.elapsed());
            cost();
            error();
            steps_back();
        }
    }
}
