//! The parameters of a world.

use std::time::Duration;

use tollgate::{Algorithm, Limit};
use tollgate_cluster::replicated::{OnMissing, Settings};

use tollgate_testkit::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    None,
    All,
}

/// Everything that the seed decides before the world starts. Times are in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) seed: u64,
    pub(super) faults: Faults,
    pub(super) nodes: usize,
    pub(super) limit: Limit,
    pub(super) settings: Settings,
    /// Whether nodes have names that survive a crash.
    pub(super) named: bool,
    /// The longest delay of a message.
    pub(super) delay: u64,
    /// The share of messages that are lost, in percent.
    pub(super) loss: u64,
    pub(super) doubled: u64,
    /// How far the clock of a node may be from the true time.
    pub(super) skew: u64,
    pub(super) offsets: Vec<u64>,
    /// When the load begins, everything is repaired, and the load ends.
    pub(super) begin: u64,
    pub(super) mended: u64,
    pub(super) end: u64,
    /// The mean time between hits, of all nodes together.
    pub(super) gap: u64,
    pub(super) largest_cost: u64,
    /// In each of these spans the world is split into two groups; `split` has a bit for each node.
    pub(super) splits: Vec<(u64, u64, u64)>,
    /// A node crashes at one time and comes back at the other.
    pub(super) crashes: Vec<(usize, u64, u64)>,
}

const MILLI: u64 = 1_000;

impl Draw {
    pub(super) fn of(seed: u64, faults: Faults) -> Draw {
        let random = &mut Random::new(stirred(seed, faults));
        let nodes = random.between(2..=6) as usize;
        let limit = limit(random);
        let mut settings = Settings::default();
        settings.flush = Duration::from_millis(random.between(1..=50));
        settings.heartbeat = Duration::from_millis(200);
        settings.compare = Duration::from_millis(random.between(150..=600));
        settings.join = Duration::from_millis(50);
        settings.clean = Duration::from_millis(100 * 256);
        let faulty = faults == Faults::All;
        let skew = if faulty && random.percent(50) { random.between(0..=20 * MILLI) } else { 0 };
        // Any time works, but nodes should not always start at the edge of a window.
        let base = 1_700_000_000_000_000 + random.between(0..=10_000 * MILLI) + skew;
        let period = limit.period().as_micros() as u64;
        let begin = 700 * MILLI;
        let load = (period * random.between(2..=4)).clamp(400 * MILLI, 4_000 * MILLI);
        let end = begin + load;
        let hits = random.between(100..=400);
        let mut draw = Draw {
            seed,
            faults,
            nodes,
            named: false,
            settings,
            delay: random.between(0..=30 * MILLI),
            loss: 0,
            doubled: 0,
            skew,
            offsets: (0..6).map(|_| base - skew + random.between(0..=2 * skew)).collect(),
            begin,
            mended: end,
            end,
            gap: (load / hits).max(1),
            largest_cost: random.one_of(&[1, 1, 3]),
            splits: Vec::new(),
            crashes: Vec::new(),
            limit,
        };
        if faulty {
            draw.draw_faults(random);
        }
        draw
    }

    fn draw_faults(&mut self, random: &mut Random) {
        let (begin, end) = (self.begin, self.end);
        self.mended = begin + (end - begin) * 3 / 4;
        self.loss = random.one_of(&[0, 0, 10, 30, 60]);
        self.doubled = random.one_of(&[0, 10, 50]);
        for _ in 0..random.between(0..=2) {
            let from = random.between(begin..=self.mended);
            let until = random.between(from..=self.mended);
            self.splits.push((from, until, random.next() & 0x3f));
        }
        self.settings.on_missing =
            random.one_of(&[OnMissing::GoOn, OnMissing::GoOn, OnMissing::Share, OnMissing::Closed]);
        self.named = random.percent(50);
        for _ in 0..random.one_of(&[0, 0, 1, 3]) {
            let node = random.between(0..=self.nodes as u64 - 1) as usize;
            let at = random.between(begin..=self.mended);
            let back = (at + random.between(1..=800 * MILLI)).min(self.mended);
            self.crashes.push((node, at, back.max(at + 1)));
        }
    }
}

fn stirred(seed: u64, faults: Faults) -> u64 {
    Random::new(seed ^ (faults as u64) << 56).next()
}

fn limit(random: &mut Random) -> Limit {
    let algorithm = random.one_of(&[
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::MovingWindow,
        Algorithm::Gcra,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ]);
    let quota = random.one_of(&[1, 3, 10, 40, 100]);
    let period = Duration::from_millis(random.between(100..=2_000));
    let mut builder = Limit::new(quota, period).algorithm(algorithm);
    if matches!(algorithm, Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket) {
        builder = builder.burst(random.between(1..=quota * 2));
    }
    builder.build().unwrap()
}
