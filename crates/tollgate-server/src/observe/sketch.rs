//! The keys that come most often, in bounded memory: space-saving (Metwally, Agrawal, El Abbadi, 2005).
//!
//! A key that is not among those kept takes the place of the one with the fewest hits, and its count goes on from there: that much it may be
//! overestimated, and says so. A key that has more than 1/[`ROOM`] of all hits of its shard is always among them.

use std::sync::{Arc, Mutex, TryLockError};

use foldhash::quality::RandomState;
use serde::Serialize;
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
    shards: [Mutex<Shard>; SHARDS],
}

/// What every hit looks at lies together: hashes and counts, at the same place as the entry they are of.
#[derive(Debug)]
struct Shard {
    hashes: Vec<u64>,
    counts: Vec<u64>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    rule: Arc<RuleStats>,
    key: String,
    over: u64,
}

/// A key, and how often it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
            shards: [const { Mutex::new(Shard::EMPTY) }; SHARDS],
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
        shard.saw(hash, rule, key);
    }

    /// Those that came most often, the first most often.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<Seen> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.extend(shard.entries.iter().zip(&shard.counts).map(|(entry, count)| Seen {
                namespace: entry.rule.namespace().to_owned(),
                rule: entry.rule.name().to_owned(),
                key: entry.key.clone(),
                count: *count,
                over: entry.over,
            }));
        }
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        all.truncate(most);
        all
    }
}

impl Shard {
    const EMPTY: Shard = Shard { hashes: Vec::new(), counts: Vec::new(), entries: Vec::new() };

    fn saw(&mut self, hash: u64, rule: &Arc<RuleStats>, key: KeyRef<'_>) {
        if let Some(index) = self.hashes.iter().position(|known| *known == hash) {
            self.counts[index] += 1;
            return;
        }
        if self.hashes.len() < ROOM {
            let mut entry = Entry { rule: Arc::clone(rule), key: String::new(), over: 0 };
            text(key, &mut entry.key);
            self.entries.push(entry);
            self.hashes.push(hash);
            self.counts.push(1);
            return;
        }
        let fewest = self.counts.iter().copied().min().unwrap_or_default();
        let Some(index) = self.counts.iter().position(|count| *count == fewest) else { return };
        self.hashes[index] = hash;
        self.counts[index] = fewest + 1;
        let entry = &mut self.entries[index];
        entry.over = fewest;
        text(key, &mut entry.key);
        if !Arc::ptr_eq(&entry.rule, rule) {
            entry.rule = Arc::clone(rule);
        }
    }
}

/// Writes a key as people read it; where another was written before, because most keys come once and go.
fn text(key: KeyRef<'_>, into: &mut String) {
    into.clear();
    for (index, part) in key.parts().enumerate() {
        if index > 0 {
            into.push_str(", ");
        }
        into.push_str(&String::from_utf8_lossy(&part[..part.len().min(MAX_KEY)]));
    }
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
