//! How long requests waited, in buckets that are at most 1/64 wide.

/// Buckets of waits in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

const FINE: u32 = 6;

/// The bucket of a wait: exact below 64, then 64 buckets for each power of two.
fn bucket(micros: u64) -> usize {
    let bits = 64 - micros.leading_zeros();
    let shift = bits.saturating_sub(FINE + 1);
    ((u64::from(shift) << FINE) + (micros >> shift)) as usize
}

/// The largest wait in a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> FINE).saturating_sub(1);
    let first = bucket - (shift << FINE);
    ((first + 1) << shift).wrapping_sub(1)
}

impl Waits {
    pub(crate) fn add(&mut self, micros: u64) {
        let bucket = bucket(micros);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.longest = self.longest.max(micros);
    }

    /// The longest wait in microseconds.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The wait in microseconds that this many thousandths of the waits do not exceed. It is at
    /// most 1/64 too long.
    #[must_use]
    pub fn of_thousand(&self, thousandths: u64) -> u64 {
        let rank = u128::from(self.total) * u128::from(thousandths);
        let rank = u64::try_from(rank.div_ceil(1_000)).unwrap_or(u64::MAX).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return largest(index).min(self.longest);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_bucket_is_at_most_a_64th_too_wide(micros in 0..u64::MAX / 2) {
            let largest = largest(bucket(micros));
            proptest::prop_assert!(micros <= largest && largest - micros <= micros / 64, "{largest}");
        }
    }

    #[test]
    fn quantiles_of_waits_are_found() {
        let mut waits = Waits::default();
        (1..=1_000).for_each(|micros| waits.add(micros));
        assert_eq!(waits.longest(), 1_000);
        assert!((500..=508).contains(&waits.of_thousand(500)));
        assert_eq!(waits.of_thousand(1_000), 1_000);
        assert_eq!(Waits::default().of_thousand(990), 0);
    }
}
