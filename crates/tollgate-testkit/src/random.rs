//! Pseudo-random numbers, repeatable by the seed that a failure prints.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

/// Fixes the seed of every random rule.
pub const SEED: &str = "TOLLGATE_TESTKIT_SEED";

/// Multiplies the number of random cases, for soak runs.
pub const CASES: &str = "TOLLGATE_TESTKIT_CASES";

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}: must be a number")))
}

/// The seed of this run.
pub(crate) fn seed() -> u64 {
    from_environment(SEED).unwrap_or_else(unique)
}

/// `usual`, multiplied as the environment asks.
pub(crate) fn cases(usual: u64) -> u64 {
    usual * from_environment(CASES).unwrap_or(1)
}

/// A number that no other run has.
pub(crate) fn unique() -> u64 {
    RandomState::new().hash_one(std::process::id()) >> 16
}

/// SplitMix64: small, the same everywhere, and good enough to pick calls and faults.
///
/// ```
/// use tollgate_testkit::Random;
/// let (mut one, mut other) = (Random::new(7), Random::new(7));
/// assert_eq!(one.between(3..=9), other.between(3..=9));
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "the sequence never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number in this range.
    pub fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in this many percent of calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these values; there must be at least one.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Chooses an index with a probability in proportion to its weight.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return index;
            }
            rest -= weight;
        }
        0
    }
}
