//! Lower bounds of the machine: the least that any limiter must do, and nothing at all.

use super::{Contender, Key, Load};
use crate::Outcome;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of the array: a million keys fill half of it, as they would a table.
const WORDS: usize = 1 << 21;

/// A clock, a hash and one compare-exchange on a word picked by the hash. Keeps no keys, so two
/// keys may share a word.
struct Floor {
    clock: quanta::Clock,
    hasher: FixedState,
    words: Box<[AtomicU64]>,
}

pub(super) fn floor(_: &Load) -> Outcome<Box<dyn Contender>> {
    let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    Ok(Box::new(Floor { clock: quanta::Clock::new(), hasher: FixedState::default(), words }))
}

impl Contender for Floor {
    fn hit(&self, key: &Key) -> bool {
        let now = self.clock.raw();
        let hash = self.hasher.hash_one(key.as_bytes());
        let Some(word) = self.words.get(hash as usize % WORDS) else { return false };
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let next = seen.max(now) + 1;
            match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
    }

    fn clean(&self, _: &[Key]) {}
}

struct Control;

pub(super) fn control(_: &Load) -> Outcome<Box<dyn Contender>> {
    Ok(Box::new(Control))
}

impl Contender for Control {
    fn hit(&self, _: &Key) -> bool {
        true
    }

    fn clean(&self, _: &[Key]) {}
}
