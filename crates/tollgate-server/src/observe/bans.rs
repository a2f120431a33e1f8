//! The banned keys of a rule: those that this server has answered with `banned`, and whose bans are
//! not over.
//!
//! Stores keep bans by key, and most of them cannot list them. A key that was banned through
//! another server appears here with its next request to this one. The number is bounded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::{KeyRef, Outcome, OwnedKey, Source, Timestamp};

/// The most bans of one rule. Further ones are not listed, and they last all the same.
pub const MOST: usize = 1_000;

/// The bans of one rule.
#[derive(Debug, Default)]
pub(super) struct Bans {
    count: AtomicUsize,
    ends: Mutex<HashMap<OwnedKey, Timestamp>>,
}

impl Bans {
    /// Notes that a key is banned, or is no longer.
    #[inline]
    pub(super) fn saw(&self, key: KeyRef<'_>, outcomes: &[Outcome]) {
        if let Some(ban) = outcomes.last().filter(|outcome| outcome.is_ban()) {
            self.note(key, ban);
        }
    }

    #[cold]
    fn note(&self, key: KeyRef<'_>, ban: &Outcome) {
        // Others do not know the bans of the store.
        if !matches!(ban.source(), Source::Store | Source::DenialCache) {
            return;
        }
        let Some(wait) = ban.retry_after().filter(|_| ban.banned()) else {
            return self.forget(key);
        };
        let end = ban.now() + wait;
        let mut ends = self.lock();
        let key = OwnedKey::new(&key);
        if ends.len() >= MOST && !ends.contains_key(&key) {
            ends.retain(|_, end| *end > ban.now());
        }
        if ends.len() < MOST || ends.contains_key(&key) {
            ends.insert(key, end);
        }
        self.count.store(ends.len(), Ordering::Relaxed);
    }

    pub(super) fn forget(&self, key: KeyRef<'_>) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut ends = self.lock();
        ends.remove(&OwnedKey::new(&key));
        self.count.store(ends.len(), Ordering::Relaxed);
    }

    /// The banned keys and the ends of their bans, by the clock of the store.
    pub(super) fn at(&self, now: Timestamp) -> Vec<(OwnedKey, Timestamp)> {
        let mut ends = self.lock();
        ends.retain(|_, end| *end > now);
        self.count.store(ends.len(), Ordering::Relaxed);
        ends.iter().map(|(key, end)| (key.clone(), *end)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnedKey, Timestamp>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{Key as _, Memory};

    use super::*;

    #[test]
    fn the_list_is_bounded_and_forgets_bans_that_are_over() {
        const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);
        let limiter = Memory::new().limiter("1/day; ban after=1/minute for=1h").unwrap();
        let bans = Bans::default();
        let hit = |number: usize, now: Timestamp| {
            let _ = limiter.at(now).hit_n(number, 2);
            let decision = limiter.at(now).hit(number);
            number.with_key(|key| bans.saw(key, decision.outcomes()));
        };
        (0..MOST + 50).for_each(|number| hit(number, START));
        assert_eq!(bans.at(START).len(), MOST);
        let later = START + Duration::from_secs(3600);
        hit(MOST + 60, later);
        assert_eq!(bans.at(later).len(), 1, "only the one that began later");
        (MOST + 60).with_key(|key| bans.forget(key));
        assert!(bans.at(later).is_empty());
    }
}
