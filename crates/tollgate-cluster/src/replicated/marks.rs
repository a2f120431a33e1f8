//! Marks the shards that have untold counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each number below 256.
#[derive(Debug, Default)]
pub(crate) struct Marks([AtomicU64; 4]);

impl Marks {
    pub(crate) fn mark(&self, number: usize) {
        let (word, bit) = (&self.0[number / 64 % 4], 1 << (number % 64));
        // Usually the bit is set already, and many threads read it.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Release);
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Clears all marks, and returns the numbers that had one.
    pub(crate) fn take(&self) -> Vec<usize> {
        let mut numbers = Vec::new();
        for (index, word) in self.0.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                numbers.push(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        numbers
    }
}
