//! The demand of each key: the most units in any span of a given length.
//!
//! The span slides in steps of a 64th of its length, so the measured span may be longer by one
//! step. The peak is never too small, and too large only where a key has a second burst right after
//! a full span. Memory holds the units of the keys in each step of the current span.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;

const STEPS: u64 = 64;

/// The peaks of all keys for one span.
#[derive(Debug)]
pub(crate) struct Demand {
    span: u64,
    /// The steps within the span: the number of each, and the units of its keys.
    steps: VecDeque<(u64, HashMap<u32, u64, RandomState>)>,
    /// The units of each key within the span.
    current: HashMap<u32, u64, RandomState>,
    peaks: Vec<u64>,
}

impl Demand {
    /// The span is in microseconds.
    pub(crate) fn new(span: u64) -> Demand {
        Demand { span, steps: VecDeque::new(), current: HashMap::default(), peaks: Vec::new() }
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
        let step = at / (self.span / STEPS).max(1);
        while self.steps.front().is_some_and(|(first, _)| first + STEPS < step) {
            let Some((_, ended)) = self.steps.pop_front() else { break };
            for (key, units) in ended {
                if let Some(current) = self.current.get_mut(&key) {
                    *current -= units;
                    if *current == 0 {
                        self.current.remove(&key);
                    }
                }
            }
        }
        if self.steps.back().is_none_or(|(last, _)| *last != step) {
            self.steps.push_back((step, HashMap::default()));
        }
        if let Some((_, units)) = self.steps.back_mut() {
            *units.entry(key).or_default() += cost;
        }
        let current = self.current.entry(key).or_default();
        *current += cost;
        let index = key as usize;
        if index >= self.peaks.len() {
            self.peaks.resize(index + 1, 0);
        }
        self.peaks[index] = self.peaks[index].max(*current);
    }
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
        }
    }
}
