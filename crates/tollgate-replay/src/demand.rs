//! The demand of each key: the most units in any span of a given length.
//!
//! The span slides in steps of a 64th of its length, so a peak is that of a span which may be
//! longer by one step: never too small, and too large only where a key has a second burst right
//! after a full span. What is kept are the units of the keys in each step of the current span. When
//! that becomes too much, the steps become longer.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;

/// Steps of a span: at first, and at least.
const STEPS: u64 = 64;
const FEWEST_STEPS: u64 = 4;

/// The most pairs of a step and a key that are kept: some sixty megabytes.
const MOST_PAIRS: usize = 2_000_000;

type Units = HashMap<u32, u64, RandomState>;

/// The peaks of all keys for one span.
#[derive(Debug)]
pub(crate) struct Demand {
    span: u64,
    /// The length of a step.
    width: u64,
    /// How many steps a span has.
    count: u64,
    /// Pairs of a step and a key.
    pairs: usize,
    most_pairs: usize,
    /// The steps within the span: the number of each, and the units of its keys.
    steps: VecDeque<(u64, Units)>,
    /// The units of each key within the span.
    current: Units,
    peaks: Vec<u64>,
}

impl Demand {
    /// The span is in microseconds.
    pub(crate) fn new(span: u64) -> Demand {
        Demand {
            span,
            width: (span / STEPS).max(1),
            count: STEPS,
            pairs: 0,
            most_pairs: MOST_PAIRS,
            steps: VecDeque::new(),
            current: HashMap::default(),
            peaks: Vec::new(),
        }
    }

    pub(crate) fn span(&self) -> u64 {
        self.span
    }

    /// The peak of each key, by its number.
    pub(crate) fn peaks(&self) -> &[u64] {
        &self.peaks
    }

    /// Counts a request; times do not go back.
    pub(crate) fn count(&mut self, at: u64, key: u32, cost: u64) {
        let mut step = at / self.width;
        while self.steps.front().is_some_and(|(first, _)| first + self.count < step) {
            let Some((_, ended)) = self.steps.pop_front() else { break };
            self.pairs -= ended.len();
            for (key, units) in ended {
                if let Some(current) = self.current.get_mut(&key) {
                    *current = current.saturating_sub(units);
                    if *current == 0 {
                        self.current.remove(&key);
                    }
                }
            }
        }
        if self.steps.back().is_none_or(|(last, _)| *last != step) {
            if self.pairs > self.most_pairs && self.count > FEWEST_STEPS {
                self.lengthen_steps();
                step = at / self.width;
            }
            if self.steps.back().is_none_or(|(last, _)| *last != step) {
                self.steps.push_back((step, HashMap::default()));
            }
        }
        if let Some((_, units)) = self.steps.back_mut() {
            let before = units.len();
            add(units, key, cost);
            self.pairs += units.len() - before;
        }
        let current = add(&mut self.current, key, cost);
        let index = key as usize;
        if index >= self.peaks.len() {
            self.peaks.resize(index + 1, 0);
        }
        self.peaks[index] = self.peaks[index].max(current);
    }

    /// Puts each two neighbouring steps together.
    fn lengthen_steps(&mut self) {
        self.width *= 2;
        self.count /= 2;
        self.pairs = 0;
        let mut longer: VecDeque<(u64, Units)> = VecDeque::new();
        for (step, units) in self.steps.drain(..) {
            match longer.back_mut() {
                Some((last, sum)) if *last == step / 2 => {
                    for (key, units) in units {
                        add(sum, key, units);
                    }
                }
                _ => longer.push_back((step / 2, units)),
            }
        }
        self.pairs = longer.iter().map(|(_, units)| units.len()).sum();
        self.steps = longer;
    }
}

/// The units of a key after these are added.
fn add(units: &mut Units, key: u32, more: u64) -> u64 {
    let units = units.entry(key).or_default();
    *units = units.saturating_add(more);
    *units
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_peak_is_never_too_small_and_at_most_a_step_too_wide(
            times in proptest::collection::vec(0_u64..5_000, 1..60),
        ) {
            let mut times = times;
            times.sort_unstable();
            let mut demand = Demand::new(640);
            times.iter().for_each(|at| demand.count(*at, 3, 2));
            let most = |span: u64| {
                let within = |end: u64| {
                    2 * times.iter().filter(|at| **at <= end && **at + span > end).count() as u64
                };
                times.iter().map(|end| within(*end)).max().unwrap_or(0)
            };
            let peak = demand.peaks()[3];
            proptest::prop_assert!(most(640) <= peak && peak <= most(640 + 2 * 10), "{peak}");

            let mut small = Demand::new(640);
            small.most_pairs = 4;
            times.iter().for_each(|at| small.count(*at, 3, 2));
            let peak = small.peaks()[3];
            proptest::prop_assert!(most(640) <= peak && peak <= most(640 + 2 * 160), "{peak}");
        }
    }
}
