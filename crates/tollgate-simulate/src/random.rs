//! Random numbers from a seed: SplitMix64, which is small and the same everywhere.

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a client, for one purpose.
    pub(crate) fn new(seed: u64, client: u64, purpose: u64) -> Random {
        let mut random = Random(seed);
        for part in [client, purpose] {
            random = Random(random.next() ^ part.wrapping_mul(0xD134_2543_DE82_EF95));
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(end)) >> 64).unwrap_or(0)
    }

    /// A time between two events that come at random, in microseconds, where the mean is `mean`.
    #[expect(clippy::float_arithmetic, reason = "traffic is a statistic; no limit depends on it")]
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        // The number is from 2^-53 to 1, so that the logarithm is finite.
        let uniform = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * mean as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_events_have_their_mean() {
        let mut random = Random::new(1, 2, 3);
        let sum: u64 = (0..100_000).map(|_| random.exponential(1_000_000)).sum();
        assert!((990_000..1_010_000).contains(&(sum / 100_000)), "{}", sum / 100_000);
        assert!((0..1_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn clients_have_sequences_of_their_own() {
        let first = |seed, client, purpose| Random::new(seed, client, purpose).next();
        let all = [first(1, 1, 1), first(1, 1, 2), first(1, 2, 1), first(2, 1, 1)];
        assert!((1..4).all(|n| !all[..n].contains(&all[n])));
    }
}
