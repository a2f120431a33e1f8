//! The keys that come most often, in bounded memory: space-saving (Metwally, Agrawal, El Abbadi, 2005).
//!
//! A key that is not among those kept takes the place of the one with the fewest hits, and its count goes on from there: that much it may be
//! overestimated, and says so. A key that has more than 1/[`ROOM`] of all hits of its shard is always among them.

use std::sync::{Arc, Mutex, TryLockError};

use foldhash::quality::RandomState;
use tollgate::KeyRef;

use super::RuleStats;

const SHARDS: usize = 16;

/// Keys in one shard.
const ROOM: usize = 64;

/// The longest part of a key that is kept, in bytes.
const MAX_KEY: usize = 256;

/// Counts of the keys that come most often. Two threads at once in one shard: one of them is not counted, because nobody waits for statistics.
#[derive(Debug)]
pub struct Sketch {
    hasher: RandomState,
    shards: [Mutex<Vec<Entry>>; SHARDS],
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    rule: Arc<RuleStats>,
    key: Box<str>,
    count: u64,
    over: u64,
}

/// A key, and how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where the rule is.
    pub namespace: String,
    /// Which rule; empty for limits that came with requests.
    pub rule: String,
    /// The key; what is no text is shown as such.
    pub key: String,
    /// How often, at most.
    pub count: u64,
    /// By how much that may be too many.
    pub over: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch {
            hasher: RandomState::default(),
            shards: [const { Mutex::new(Vec::new()) }; SHARDS],
        }
    }
}

impl Sketch {
    /// Counts a hit of a key.
    pub fn saw(&self, rule: &Arc<RuleStats>, key: KeyRef<'_>) {
        use std::hash::BuildHasher as _;
        let hash = self.hasher.hash_one((Arc::as_ptr(rule) as usize, key));
        let mut shard = match self.shards[(hash >> 32) as usize % SHARDS].try_lock() {
            Ok(shard) => shard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(entry) = shard.iter_mut().find(|entry| entry.hash == hash) {
            entry.count += 1;
            return;
        }
        let new = |count, over| Entry { hash, rule: Arc::clone(rule), key: text(key), count, over };
        if shard.len() < ROOM {
            shard.push(new(1, 0));
        } else if let Some(rarest) = shard.iter_mut().min_by_key(|entry| entry.count) {
            *rarest = new(rarest.count + 1, rarest.count);
        }
    }

    /// Those that came most often, the first most often.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<Seen> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.extend(shard.iter().map(|entry| Seen {
                namespace: entry.rule.namespace().to_owned(),
                rule: entry.rule.name().to_owned(),
                key: entry.key.to_string(),
                count: entry.count,
                over: entry.over,
            }));
        }
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        all.truncate(most);
        all
    }
}

/// A key as people read it.
fn text(key: KeyRef<'_>) -> Box<str> {
    let part = |part: &[u8]| String::from_utf8_lossy(&part[..part.len().min(MAX_KEY)]).into_owned();
    let parts: Vec<String> = key.parts().map(part).collect();
    parts.join(", ").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_keys_are_found_among_many_others() {
        let (sketch, rule) = (Sketch::default(), Arc::new(RuleStats::new("", "api")));
        for round in 0..2_000_u32 {
            for busy in 0..10_u32 {
                sketch.saw(&rule, KeyRef::plain(format!("busy {busy}").as_bytes()));
            }
            sketch.saw(&rule, KeyRef::plain(format!("rare {round}").as_bytes()));
        }
        let top = sketch.top(10);
        assert!(top.iter().all(|seen| seen.key.starts_with("busy")), "{top:?}");
        assert!(top.iter().all(|seen| seen.count - seen.over <= 2_000 && seen.count >= 2_000));
    }

    #[test]
    fn endless_keys_take_bounded_room() {
        let (sketch, rule) = (Sketch::default(), Arc::new(RuleStats::new("", "api")));
        for key in 0..100_000_u32 {
            sketch.saw(&rule, KeyRef::plain(&key.to_be_bytes()));
        }
        assert_eq!(sketch.top(usize::MAX).len(), SHARDS * ROOM);
    }
}
