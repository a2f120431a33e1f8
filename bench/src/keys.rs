//! The keys of the walks: built in the order of the walk, so that the bytes of a key are in the
//! cache when it is its turn, as they are in a server that has just parsed them.

use crate::contenders::Key;

/// A small generator: the walks must be the same in every run.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`; the bias of the multiplication is below 2^-40 here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// Uniform in `0.0..1.0`.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The key of number `n`.
pub(crate) fn key(n: usize) -> Key {
    format!("user:{n}")
}

/// The same key many times, each its own string, few enough to stay in the first cache.
pub(crate) fn hot() -> Vec<Key> {
    vec![key(42); 256]
}

/// The keys `first..first + count`, each once, in an order that depends on `seed`.
pub(crate) fn shuffled(first: usize, count: usize, seed: u64) -> Vec<Key> {
    let mut numbers: Vec<usize> = (first..first + count).collect();
    SplitMix::new(seed).shuffle(&mut numbers);
    numbers.into_iter().map(key).collect()
}

/// `count` draws from `count` keys by Zipf's law with exponent 1: the n-th key is n times rarer
/// than the first.
pub(crate) fn zipf(count: usize, seed: u64) -> Vec<Key> {
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=count)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let mut random = SplitMix::new(seed);
    let mut draw = || {
        let point = random.fraction() * total;
        sums.partition_point(|sum| *sum <= point)
    };
    (0..count).map(|_| key(draw())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn shuffled_holds_every_key_once_and_not_in_order() {
        let keys = shuffled(10, 1000, 1);
        assert_ne!(keys, (10..1010).map(key).collect::<Vec<_>>());
        assert_eq!(keys.into_iter().collect::<HashSet<_>>(), (10..1010).map(key).collect());
    }

    #[test]
    fn zipf_draws_the_first_key_twice_as_often_as_the_second() {
        let keys = zipf(100_000, 1);
        let count = |n| keys.iter().filter(|k| **k == key(n)).count();
        // A harmonic number of 12.1 gives 8,270 and 4,135.
        assert!((7_800..8_800).contains(&count(0)), "{}", count(0));
        assert!((3_800..4_500).contains(&count(1)), "{}", count(1));
    }
}
