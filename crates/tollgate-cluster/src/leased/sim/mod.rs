//! Simulated nodes that lease from one store through an unreliable network, by seed. Whatever
//! happens, the exact limit would have admitted the hits that they admit.
//!
//! Only the store, the network and the time are simulated; the rest is production code.
//! `TOLLGATE_SIM_SEEDS=100000` runs that many seeds, `TOLLGATE_SIM_SEED=17` runs that one.

mod used;
mod world;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::algorithm::{AnyMachine, Op};
use tollgate::shared::{SharedLimiter, SharedStore};
use tollgate::{Algorithm, Limit, Receipt, Source, Timestamp};

use super::Leased;
use super::planted::{self, Fault};
use super::terms::Terms;
use tollgate_testkit::Random;
use world::{Executor, Far, NodeClock, Sim, Weather};

const SEEDS: u64 = 3_000;

const LEASABLE: [Algorithm; 7] = [
    Algorithm::FixedWindow,
    Algorithm::FixedWindowPerKey,
    Algorithm::MovingWindow,
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
    Algorithm::Gcra,
];

/// The parameters that a seed chooses.
#[derive(Clone, Debug)]
struct Plan {
    limit: Limit,
    nodes: usize,
    told_nodes: u32,
    longest: Duration,
    weather: Weather,
    /// The error of each node's clock in millionths.
    drifts: Vec<i64>,
    /// Units offered per period by all nodes, in percent of the quota.
    load: u64,
    gusts: bool,
    few: u64,
    faults: bool,
}

impl Plan {
    fn draw(random: &mut Random) -> Plan {
        let algorithm = random.one_of(&LEASABLE);
        let quota = random.one_of(&[1, 2, 5, 10, 40, 200, 1_000]);
        let period = random.one_of(&[10_000, 100_000, 1_000_000, 2_000_003]);
        let mut limit = Limit::new(quota, Duration::from_micros(period)).algorithm(algorithm);
        if matches!(algorithm, Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket) {
            limit = limit.burst(random.one_of(&[1, quota, quota * 2, quota + 3]));
        }
        let nodes = random.between(1..=5);
        let faults = random.percent(70);
        Plan {
            limit: limit.build().unwrap(),
            nodes: nodes as usize,
            told_nodes: u32::try_from(random.between(1..=6)).unwrap(),
            longest: Duration::from_micros(random.one_of(&[1_000, 20_000, 300_000, 2_000_000])),
            weather: Weather {
                delay: random.one_of(&[0, 100, 2_000, period / 3]),
                loss: if faults { random.one_of(&[0, 2, 20]) } else { 0 },
                deadline: Duration::from_micros(random.one_of(&[1_000, 20_000, 2 * period])),
            },
            drifts: (0..nodes).map(|_| random.below(1_999) as i64 - 999).collect(),
            load: random.one_of(&[50, 100, 200, 400]),
            gusts: random.percent(40),
            few: random.between(1..=8),
            faults,
        }
    }
}

/// An admitted hit: its time, its units, and the window or draw they came from.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Timestamp,
    units: u64,
    mark: u64,
}

type Trace = Arc<Mutex<Vec<Admitted>>>;

struct Run {
    plan: Plan,
    sim: Sim,
    executor: Executor,
    nodes: Vec<SharedLimiter<Leased<Far>>>,
    trace: Trace,
    offered: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random);
        let sim = Sim::new(random.next(), plan.nodes, plan.weather);
        let executor = Executor::default();
        let mut run =
            Run { plan, sim, executor, nodes: Vec::new(), trace: Trace::default(), offered: 0 };
        run.nodes = (0..run.plan.nodes).map(|node| run.start(node)).collect();
        run
    }

    /// A node without any state.
    fn start(&self, node: usize) -> SharedLimiter<Leased<Far>> {
        let begin = self.sim.world().random.below(1 << 40);
        let clock = NodeClock::new(&self.sim, begin, self.plan.drifts[node]);
        let leased = Leased::builder(Far::new(&self.sim, node))
            .nodes(self.plan.told_nodes)
            .longest(self.plan.longest)
            .clock(clock)
            .build();
        leased.limiter(self.plan.limit.clone()).unwrap()
    }

    /// Runs the load with its disturbances.
    fn play(&mut self) {
        let limit = self.plan.limit.clone();
        let period = u64::try_from(limit.period().as_micros()).unwrap();
        let per_period = (limit.quota() * self.plan.load / 100).max(2);
        let hits = (per_period * 8).clamp(60, 600);
        let gap = (period / per_period).max(1);
        let terms = Terms::new(&limit, self.plan.longest, Duration::ZERO).unwrap();
        let life = u64::try_from(terms.life.as_micros()).unwrap();
        // The worst case for a bucket: some units are drawn while it is full, kept for almost their
        // life, and spent with all the rest.
        let (few, refill) = (self.plan.few, period * limit.burst() / limit.quota());
        let gust = few + 2 * limit.burst();
        let hits = if self.plan.gusts { (4 * gust).min(4_000) } else { hits };
        for hit in 0..hits {
            let (pause, node) = {
                let random = &mut self.sim.world().random;
                let pause = match (self.plan.gusts, hit % gust, random.below(20)) {
                    (true, 0, _) => refill + random.below(refill),
                    (true, at, _) if at == few => life * random.between(50..=99) / 100,
                    // Otherwise mostly a steady load, sometimes bursts, sometimes long pauses.
                    (true, ..) | (false, _, 0..8) => 0,
                    (false, _, 8..19) => random.below(gap * 3 + 1),
                    (false, ..) => random.below(period + 1),
                };
                (pause, random.below(self.plan.nodes as u64) as usize)
            };
            let until = self.sim.world().now + pause;
            self.executor.run_until(&self.sim, until);
            self.disturb(node);
            self.hit(node);
        }
        let end = self.sim.world().now + 2 * period + 3_000_000;
        self.executor.all_go_on();
        self.executor.run_until(&self.sim, end);
    }

    /// One caller at one node.
    fn hit(&mut self, node: usize) {
        let (units, whole, refunds) = {
            let random = &mut self.sim.world().random;
            let units = if random.percent(80) { 1 } else { random.between(1..=5) };
            (units, random.percent(90), random.percent(7))
        };
        self.offered += units;
        let (limiter, trace, sim) =
            (self.nodes[node].clone(), Arc::clone(&self.trace), self.sim.clone());
        self.sim.spawn(node, async move {
            let call = limiter.within(Duration::from_secs(60));
            let answer =
                if whole { call.hit_n("key", units).await } else { call.take("key", units).await };
            let Ok(decision) = answer else { return };
            if !decision.allowed() || decision.charged() == 0 {
                return;
            }
            // Hits that the store admitted itself were admitted at the store's time.
            let at = if decision.source() == Source::Lease { sim.now() } else { decision.now() };
            if refunds {
                return give_back(&limiter, &sim, &decision.headline().receipt()).await;
            }
            trace.lock().unwrap().push(Admitted {
                at,
                units: decision.charged(),
                mark: decision.headline().receipt().mark,
            });
        });
    }

    /// Crashes, stops and cut lines, and their repair.
    fn disturb(&mut self, node: usize) {
        if !self.plan.faults {
            return;
        }
        let event = self.sim.world().random.below(300);
        match event {
            0 | 1 => {
                self.executor.kill(&self.sim, node);
                self.nodes[node] = self.start(node);
            }
            2 | 3 => {
                let cut = &mut self.sim.world().cut;
                cut[node] = !cut[node];
            }
            4 | 5 => self.executor.stop_or_go_on(node),
            6 => {
                let leased = self.nodes[node].store().clone();
                self.sim.spawn(node, async move { leased.leave().await });
            }
            7 => self.sim.world().cut.fill(false),
            _ => {}
        }
    }

    /// Fails if the exact limit would have denied one of the hits.
    fn check(&self, seed: u64) -> Result<u64, String> {
        let mut trace = self.trace.lock().unwrap().clone();
        trace.sort_by_key(|hit| hit.at);
        let limit = &self.plan.limit;
        let refused = match limit.algorithm() {
            Algorithm::FixedWindowPerKey | Algorithm::SlidingWindow => {
                refused_by_windows(limit, &trace)
            }
            _ => refused_by_machine(limit, &trace),
        };
        let Some(index) = refused else { return Ok(trace.iter().map(|hit| hit.units).sum()) };
        Err(format!(
            "hit {index} of {} would have been refused: {:?}\n{:?}\n\
             replay: TOLLGATE_SIM_SEED={seed} cargo test -p tollgate-cluster --lib leased::sim",
            trace.len(),
            &trace[index.saturating_sub(5)..=index],
            self.plan
        ))
    }
}

/// The first hit that the exact limit denies.
fn refused_by_machine(limit: &Limit, trace: &[Admitted]) -> Option<usize> {
    let machine = AnyMachine::new(limit);
    let mut state = None;
    trace.iter().position(|hit| !machine.apply(&mut state, hit.at, Op::Hit(hit.units)).allowed())
}

/// The same for windows that begin with the first draw, which may come before the first hit: checks
/// the windows that the store opened.
fn refused_by_windows(limit: &Limit, trace: &[Admitted]) -> Option<usize> {
    let period = u64::try_from(limit.period().as_micros()).unwrap();
    let mut windows: HashMap<u64, u64> = HashMap::new();
    trace.iter().position(|hit| {
        let spent = windows.entry(hit.mark).or_default();
        *spent += hit.units;
        let spent = *spent;
        let (begin, end) = (hit.mark, hit.mark + period);
        let outside = !(begin..end).contains(&hit.at.as_micros());
        let overlaps =
            windows.keys().any(|other| other.abs_diff(begin) < period && *other != begin);
        let estimate = match limit.algorithm() {
            Algorithm::SlidingWindow => {
                let before = begin.checked_sub(period).and_then(|before| windows.get(&before));
                let left = end.saturating_sub(hit.at.as_micros());
                u128::from(before.copied().unwrap_or(0)) * u128::from(left)
                    + u128::from(spent) * u128::from(period)
            }
            _ => u128::from(spent) * u128::from(period),
        };
        outside || overlaps || estimate > u128::from(limit.quota()) * u128::from(period)
    })
}

/// Gives back what a hit charged a little later. The hit then counts as never made.
async fn give_back(limiter: &SharedLimiter<Leased<Far>>, sim: &Sim, receipt: &Receipt) {
    let pause = sim.world().random.below(10_000);
    sim.sleep(pause).await;
    let _ = limiter.within(Duration::from_secs(60)).refund_receipts("key", &[*receipt]).await;
}

fn run(seed: u64) -> Result<u64, String> {
    let mut run = Run::new(seed);
    run.play();
    run.check(seed)
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TOLLGATE_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TOLLGATE_SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

#[test]
fn the_exact_limit_would_admit_the_hits_of_all_nodes() {
    let mut admitted = 0;
    for seed in seeds() {
        match run(seed) {
            Ok(units) => admitted += units,
            Err(what) => panic!("{what}"),
        }
    }
    assert!(admitted > 0);
}

fn is_caught(fault: Fault) {
    let caught = planted::with(fault, || (0..SEEDS).find(|seed| run(*seed).is_err()));
    assert!(caught.is_some(), "{fault:?} is not seen by {SEEDS} seeds");
}

#[test]
fn a_burst_that_is_not_reduced_is_detected() {
    is_caught(Fault::NothingGivenUp);
}

#[test]
fn an_allotment_whose_life_starts_at_the_answer_is_detected() {
    is_caught(Fault::CountedFromAnswer);
}

#[test]
fn giving_back_to_another_window_is_detected() {
    is_caught(Fault::GivenBackToNow);
}
