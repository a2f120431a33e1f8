//! The last decisions on keys whose page is open in the dashboard.
//!
//! While no page is open, this costs each hit one relaxed load.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tollgate::{Clock as _, KeyRef, OwnedKey, SystemClock};

use super::RuleStats;
use crate::seconds::unix_now;
use crate::service::Verdict;

/// The most keys that are watched. One more replaces the key that was requested least recently.
const MOST: usize = 16;

/// The most decisions that are kept for each watched key.
const DECISIONS: usize = 50;

/// A key that no page has requested for this many seconds is not watched any more.
const IDLE: u64 = 15;

/// A decision on a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedDecision {
    /// When it was made, in microseconds since the Unix epoch.
    pub at: u64,
    /// The decision.
    pub verdict: Verdict,
}

/// The keys that are watched.
#[derive(Debug, Default)]
pub(super) struct Watchlist {
    any: AtomicBool,
    keys: ArcSwap<Vec<Arc<WatchedKey>>>,
    /// Held while the list is replaced.
    replacing: Mutex<()>,
}

#[derive(Debug)]
struct WatchedKey {
    rule: Arc<RuleStats>,
    key: OwnedKey,
    /// When it was last asked for, in seconds since the Unix epoch.
    asked: AtomicU64,
    decisions: Mutex<VecDeque<WatchedDecision>>,
}

impl WatchedKey {
    fn is(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>) -> bool {
        Arc::ptr_eq(&self.rule, rule) && self.key.as_key_ref() == key
    }
}

impl Watchlist {
    #[inline]
    pub(super) fn saw(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>, verdict: Verdict) {
        if self.any.load(Ordering::Relaxed) {
            self.note(rule, key, verdict);
        }
    }

    #[cold]
    fn note(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>, verdict: Verdict) {
        let keys = self.keys.load();
        let Some(watched) = keys.iter().find(|watched| watched.is(rule, key)) else { return };
        let at = SystemClock::new().now().as_micros();
        let mut decisions = watched.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if decisions.len() == DECISIONS {
            decisions.pop_front();
        }
        decisions.push_back(WatchedDecision { at, verdict });
    }

    /// The last decisions on a key, the newest first. From now on it is watched.
    pub(super) fn ask(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>) -> Vec<WatchedDecision> {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, keys) = (unix_now(), self.keys.load());
        if let Some(watched) = keys.iter().find(|watched| watched.is(rule, key)) {
            watched.asked.store(now, Ordering::Relaxed);
            let decisions = watched.decisions.lock().unwrap_or_else(PoisonError::into_inner);
            return decisions.iter().rev().copied().collect();
        }
        let mut keys = Vec::clone(&keys);
        if keys.len() == MOST {
            let asked = |watched: &Arc<WatchedKey>| watched.asked.load(Ordering::Relaxed);
            let oldest = keys.iter().enumerate().min_by_key(|(_, watched)| asked(watched));
            if let Some((index, _)) = oldest {
                keys.swap_remove(index);
            }
        }
        keys.push(Arc::new(WatchedKey {
            rule: Arc::clone(rule),
            key: OwnedKey::new(&key),
            asked: AtomicU64::new(now),
            decisions: Mutex::default(),
        }));
        self.put(keys);
        Vec::new()
    }

    /// Forgets keys that nobody has asked for lately.
    pub(super) fn forget_idle(&self, now: u64) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keys = Vec::clone(&self.keys.load());
        let before = keys.len();
        keys.retain(|watched| watched.asked.load(Ordering::Relaxed) + IDLE > now);
        if keys.len() < before {
            self.put(keys);
        }
    }

    fn put(&self, keys: Vec<Arc<WatchedKey>>) {
        self.any.store(!keys.is_empty(), Ordering::Relaxed);
        self.keys.store(Arc::new(keys));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Observer, Scope};

    #[test]
    fn only_watched_keys_are_noted_and_only_while_somebody_asks() {
        let observer = Observer::default();
        let rule = observer.rule(Scope::Namespace(""), "api");
        let saw = |key: &str| {
            observer.saw(&rule, KeyRef::plain(key.as_bytes()), Verdict::Denied);
        };
        let asked = || observer.watched(&rule, KeyRef::plain(b"a")).len();
        saw("a");
        assert_eq!(asked(), 0, "it was not watched before");
        (0..DECISIONS + 9).for_each(|_| saw("a"));
        saw("b");
        assert_eq!(asked(), DECISIONS);
        observer.tick(unix_now());
        assert_eq!(asked(), DECISIONS);
        observer.tick(unix_now() + IDLE + 1);
        assert_eq!(asked(), 0);
    }

    #[test]
    fn the_number_of_watched_keys_is_bounded() {
        let observer = Observer::default();
        let rule = observer.rule(Scope::Namespace(""), "api");
        for key in 0..1_000_u32 {
            let _ = observer.watched(&rule, KeyRef::plain(&key.to_be_bytes()));
        }
        assert_eq!(observer.watchlist.keys.load().len(), MOST);
    }
}
