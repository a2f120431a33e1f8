//! Numbers that look random and can be had again: by the seed that a failure prints.

use std::hash::{BuildHasher, RandomState};

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

/// `usual` times what the environment asks for.
pub(crate) fn cases(usual: u64) -> u64 {
    usual * from_environment(CASES).unwrap_or(1)
}

/// A number that no other run has.
pub(crate) fn unique() -> u64 {
    RandomState::new().hash_one(std::process::id()) >> 16
}

/// SplitMix64: small, and good enough to pick calls.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Picks by weight: the index of the weight it fell on.
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
