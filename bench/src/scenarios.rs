//! Speed in one process. Contenders take turns, so that changes of the machine affect all, and the
//! best of several rounds counts.

use crate::contenders::{ALL, Contender, HOT, Key, LIVE, Spec};
use crate::measure::{Taken, taken, taken_by_two};
use crate::{Outcome, Size, keys, progress};

/// The measurements, in the order of the columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Hot,
    Uniform,
    UniformByTwo,
    ZipfByTwo,
}

impl Scenario {
    pub(crate) const ALL: [Self; 4] =
        [Self::Hot, Self::Uniform, Self::UniformByTwo, Self::ZipfByTwo];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Hot => "hot key",
            Self::Uniform => "1 M keys",
            Self::UniformByTwo => "1 M keys, 2 threads",
            Self::ZipfByTwo => "zipf, 2 threads",
        }
    }

    pub(crate) fn by_two(self) -> bool {
        matches!(self, Self::UniformByTwo | Self::ZipfByTwo)
    }
}

/// The best round of a contender in a scenario.
#[derive(Clone, Copy)]
pub(crate) struct Speed {
    /// Nanoseconds per hit; with two threads, per hit of one thread.
    pub(crate) nanos: f64,
    /// Million hits per second of all threads together.
    pub(crate) millions: f64,
    /// Part of the hits that were allowed, over all rounds; the limits are made to allow all.
    pub(crate) allowed: f64,
    /// No round was free of other processes.
    pub(crate) disturbed: bool,
}

/// The figures of one contender, by scenario.
pub(crate) type Speeds = [Speed; Scenario::ALL.len()];

/// Runs all scenarios for all contenders; the result is in the order of [`ALL`].
pub(crate) fn speeds(size: &Size) -> Outcome<Vec<Speeds>> {
    let hot = hot(size)?;
    progress("speed: building keys");
    let walks = Walks::new(size.keys);
    let filled = fill(size)?;
    let measure = |scenario| {
        rounds(scenario, size.rounds, &filled, &|spec, contender| {
            walks.run(scenario, spec, contender)
        })
    };
    let uniform = measure(Scenario::Uniform)?;
    let uniform_by_two = measure(Scenario::UniformByTwo)?;
    let zipf_by_two = measure(Scenario::ZipfByTwo)?;
    let columns = hot.into_iter().zip(uniform).zip(uniform_by_two).zip(zipf_by_two);
    Ok(columns.map(|(((a, b), c), d)| [a, b, c, d]).collect())
}

type Filled = Vec<(&'static Spec, Box<dyn Contender>)>;

fn hot(size: &Size) -> Outcome<Vec<Speed>> {
    let contenders =
        ALL.iter().map(|spec| Ok((spec, (spec.build)(&HOT)?))).collect::<Outcome<Filled>>()?;
    let keys = keys::hot();
    rounds(Scenario::Hot, size.rounds, &contenders, &|spec, contender| {
        let walks = (size.hot_hits / spec.part).div_ceil(keys.len());
        let (allowed, taken) = taken(|| (0..walks).map(|_| contender.walk(&keys)).sum());
        Ok(Round::by_one(walks * keys.len(), allowed, taken))
    })
}

/// Contenders that already know all keys. Keys are inserted in another order than that of the
/// walks. Otherwise copies of the keys would be in memory in the order of the walk.
fn fill(size: &Size) -> Outcome<Filled> {
    let keys = keys::shuffled(0, size.keys, 1);
    ALL.iter()
        .map(|spec| {
            progress(&format!("speed: {} takes in {} keys", spec.title, size.keys));
            let contender = (spec.build)(&LIVE)?;
            let allowed = contender.walk(&keys);
            if allowed < keys.len() {
                progress(&format!("{}: allowed only {allowed} of {}", spec.title, keys.len()));
            }
            Ok((spec, contender))
        })
        .collect()
}

/// The sequences of keys, two of each kind for two threads.
struct Walks {
    uniform: [Vec<Key>; 2],
    zipf: [Vec<Key>; 2],
}

impl Walks {
    fn new(count: usize) -> Self {
        Self {
            uniform: [2, 3].map(|seed| keys::shuffled(0, count, seed)),
            zipf: [4, 5].map(|seed| keys::zipf(count, seed)),
        }
    }

    fn run(&self, scenario: Scenario, spec: &Spec, contender: &dyn Contender) -> Outcome<Round> {
        let kind = if scenario == Scenario::ZipfByTwo { &self.zipf } else { &self.uniform };
        let [first, second] = [0, 1].map(|i| spec.cut(&kind[i]));
        if !scenario.by_two() {
            let (allowed, taken) = taken(|| contender.walk(first));
            return Ok(Round::by_one(first.len(), allowed, taken));
        }
        let both = taken_by_two([&|| contender.walk(first), &|| contender.walk(second)]);
        Ok(Round::by_two(first.len(), both.ok_or("a measuring thread died")?))
    }
}

/// One turn of one contender.
struct Round {
    hits: usize,
    allowed: usize,
    nanos: f64,
    millions: f64,
    disturbed: bool,
}

impl Round {
    /// CPU time, so that other processes do not count.
    fn by_one(hits: usize, allowed: usize, taken: Taken) -> Self {
        let nanos = taken.cpu.as_secs_f64() * 1e9 / hits as f64;
        Self { hits, allowed, nanos, millions: 1e3 / nanos, disturbed: false }
    }

    /// Wall time, so that waiting for each other counts.
    fn by_two(hits_each: usize, both: [(usize, Taken); 2]) -> Self {
        let [(a, first), (b, second)] = both;
        let sum = first.wall + second.wall;
        Self {
            hits: 2 * hits_each,
            allowed: a + b,
            nanos: sum.as_secs_f64() * 1e9 / (2 * hits_each) as f64,
            millions: 2e-6 * hits_each as f64 / first.wall.max(second.wall).as_secs_f64(),
            disturbed: first.disturbed() || second.disturbed(),
        }
    }
}

type Turn<'a> = &'a dyn Fn(&Spec, &dyn Contender) -> Outcome<Round>;

/// Lets the contenders take turns, first untimed to warm up.
fn rounds(scenario: Scenario, count: usize, all: &Filled, turn: Turn<'_>) -> Outcome<Vec<Speed>> {
    let mut seen: Vec<Vec<Round>> = all.iter().map(|_| Vec::new()).collect();
    for round in 0..=count {
        progress(&format!("speed: {}, round {round} of {count}", scenario.title()));
        for ((spec, contender), rounds) in all.iter().zip(&mut seen) {
            rounds.push(turn(spec, contender.as_ref())?);
        }
    }
    Ok(seen.iter().map(|rounds| best(rounds.get(1..).unwrap_or_default())).collect())
}

/// The fastest undisturbed round, or the fastest if all were disturbed.
fn best(rounds: &[Round]) -> Speed {
    let disturbed = rounds.iter().all(|round| round.disturbed);
    let counted = rounds.iter().filter(|round| disturbed || !round.disturbed);
    let fastest = counted.min_by(|a, b| a.nanos.total_cmp(&b.nanos));
    let sum = |of: fn(&Round) -> usize| rounds.iter().map(of).sum::<usize>() as f64;
    Speed {
        nanos: fastest.map_or(f64::NAN, |round| round.nanos),
        millions: fastest.map_or(f64::NAN, |round| round.millions),
        allowed: sum(|round| round.allowed) / sum(|round| round.hits),
        disturbed,
    }
}
