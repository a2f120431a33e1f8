//! How much of a limit leased nodes use, and how many round trips they save, by algorithm and load:
//! the table in `bench/results/leased.md`. Simulated, so it is the same on every machine.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::shared::SharedLimiter;
use tollgate::{Algorithm, Limit, Timestamp};

use super::world::{Executor, Far, NodeClock, Sim, Weather};
use super::{LEASABLE, Leased};

const NODES: usize = 3;
const QUOTA: u64 = 1_000;
const PERIODS: u64 = 8;

/// Hits offered, in percent of the limit.
const LOADS: [u64; 4] = [50, 105, 200, 400];

/// A message takes up to half a millisecond.
const WEATHER: Weather = Weather { delay: 500, loss: 0, deadline: Duration::from_secs(1) };

/// The counts of all periods but the first two.
#[derive(Clone, Copy, Debug)]
struct Used {
    hits: u64,
    /// Hits admitted by the leased nodes, and by one exact limiter for all.
    admitted: u64,
    exact: u64,
    calls: u64,
}

impl Used {
    /// Admitted hits, in thousandths of those that an exact limiter admits.
    fn of_exact(&self) -> u64 {
        self.admitted * 1_000 / self.exact
    }

    /// Tenths of hits for each round trip.
    fn saved(&self) -> u64 {
        self.hits * 10 / self.calls.max(1)
    }
}

fn used(algorithm: Algorithm, load: u64) -> Used {
    let limit = Limit::per_second(QUOTA).algorithm(algorithm).build().unwrap();
    let sim = Sim::new(load, NODES, WEATHER);
    let mut executor = Executor::default();
    let start = |node| {
        let clock = NodeClock::new(&sim, 0, 0);
        let leased = Leased::builder(Far::new(&sim, node)).nodes(3).clock(clock).build();
        leased.limiter(limit.clone()).unwrap()
    };
    let nodes: Vec<SharedLimiter<Leased<Far>>> = (0..NODES).map(start).collect();
    let (machine, mut state) = (AnyMachine::new(&limit), None);
    let admitted = Arc::new(AtomicU64::new(0));
    let mut used = Used { hits: 0, admitted: 0, exact: 0, calls: 0 };
    let (begin, gap) = (sim.world().now, 1_000_000 * 100 / (QUOTA * load));
    let (from, end) = (begin + 2_000_000, begin + PERIODS * 1_000_000);
    let mut before = 0;
    while sim.world().now < end {
        let (pause, node) = {
            let random = &mut sim.world().random;
            (random.below(2 * gap + 1), random.below(NODES as u64) as usize)
        };
        let now = sim.world().now + pause;
        executor.run_until(&sim, now);
        if now >= from && used.hits == 0 {
            before = sim.world().calls;
        }
        let counts = now >= from;
        let exact = machine.apply(&mut state, Timestamp::from_micros(now), Op::Hit(1));
        used.exact += u64::from(counts && exact.allowed());
        used.hits += u64::from(counts);
        let (limiter, admitted) = (nodes[node].clone(), Arc::clone(&admitted));
        sim.spawn(node, async move {
            let hit = limiter.within(Duration::from_secs(1)).hit("key").await;
            let passed = hit.is_ok_and(|hit| hit.allowed());
            admitted.fetch_add(u64::from(counts && passed), Ordering::Relaxed);
        });
    }
    used.calls = sim.world().calls - before;
    executor.run_until(&sim, end + 2_000_000);
    used.admitted = admitted.load(Ordering::Relaxed);
    used
}

/// The least use of the limit, in thousandths, and the least tenths of hits for each round trip
/// above the limit. A moving window gives up a hundredth, so its allotments live shortly.
fn least(algorithm: Algorithm) -> (u64, u64) {
    match algorithm {
        Algorithm::FixedWindow | Algorithm::FixedWindowPerKey => (970, 450),
        Algorithm::SlidingWindow => (955, 20),
        Algorithm::MovingWindow => (985, 10),
        _ => (970, 80),
    }
}

/// With `--nocapture` it prints the table.
#[test]
fn leased_nodes_use_most_of_the_limit_and_save_round_trips() {
    let mut table = String::from("| algorithm |");
    for load in LOADS {
        let _ = write!(table, " {load} % |");
    }
    for algorithm in LEASABLE {
        let _ = write!(table, "\n| {algorithm} |");
        let (least_used, least_saved) = least(algorithm);
        for load in LOADS {
            let used = used(algorithm, load);
            let (of_exact, saved) = (used.of_exact(), used.saved());
            let whole = (of_exact / 10, saved / 10);
            let tenths = (of_exact % 10, saved % 10);
            let _ = write!(table, " {}.{} %, {}.{}x |", whole.0, tenths.0, whole.1, tenths.1);
            assert!(of_exact >= least_used, "{algorithm}, {load} %: {used:?}");
            assert!(saved >= least_saved, "{algorithm}, {load} %: {used:?}");
        }
    }
    println!("{table}");
}
