//! The most frequent keys, in bounded memory: space-saving (Metwally, Agrawal, El Abbadi, 2005).
//!
//! A new key replaces the key with the fewest hits and continues its count. So a count may be too
//! high by that much, and the sketch reports by how much. A key that has more than 1/[`ROOM`] of
//! all hits of its shard is always kept.

use std::sync::{Arc, Mutex, TryLockError};

use foldhash::quality::RandomState;
use serde::Serialize;
use tollgate::key::Form;
use tollgate::{KeyRef, OwnedKey};

use super::RuleStats;

/// Many small shards, so that a hit touches few cache lines.
const SHARDS: usize = 64;

/// Keys in one shard.
const ROOM: usize = 16;

/// Counts of the most frequent keys. If two threads meet in one shard, one of them is not counted,
/// because no hit waits for statistics.
#[derive(Debug)]
pub struct Sketch {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

/// The fields that every hit reads are next to each other: hashes and counts, at the same index as
/// their entry.
#[derive(Debug, Default)]
struct Shard {
    hashes: [u64; ROOM],
    counts: [u64; ROOM],
    entries: Vec<Entry>,
    /// A lower bound on all counts.
    fewest: u64,
    /// Where to search for a key with the fewest hits; the keys before it have more.
    hand: usize,
}

#[derive(Debug)]
struct Entry {
    rule: Arc<RuleStats>,
    /// The form and the bytes of the key as stores keep it.
    form: Form,
    key: Vec<u8>,
    over: u64,
}

/// A key, and how often it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The namespace of the rule; empty for rules of domains.
    pub namespace: String,
    /// The domain of the rule; empty for rules that clients ask for by name.
    pub domain: String,
    /// The rule; empty for limits that came with requests.
    pub rule: String,
    /// The key. Bytes that are not text are escaped, and a key longer than [`KeyRef::LONGEST`] is
    /// shown as its digest, as stores keep it.
    pub key: String,
    /// The key in the form that requests use; `None` if no text can name it.
    pub id: Option<KeyId>,
    /// The number of hits, at most.
    pub count: u64,
    /// How much the number may be too high.
    pub over: u64,
}

/// A key as JSON has it: a text, or a list of parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum KeyId {
    /// A key of one part.
    Text(String),
    /// A key of several parts.
    Parts(Vec<String>),
}

impl KeyId {
    /// `None` if no text names the key.
    #[must_use]
    pub fn of(key: KeyRef<'_>) -> Option<KeyId> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        match key.form() {
            Form::Plain => text(key.bytes()).map(KeyId::Text),
            Form::Tuple => {
                let part = |part: KeyRef<'_>| {
                    (part.form() == Form::Plain).then(|| text(part.bytes())).flatten()
                };
                key.inner().map(part).collect::<Option<_>>().map(KeyId::Parts)
            }
            _ => None,
        }
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
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

    /// The most frequent keys, the most frequent first.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<Seen> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.extend(shard.entries.iter().zip(&shard.counts).map(|(entry, count)| {
                let key = KeyRef::from_parts(entry.form, &entry.key);
                Seen {
                    namespace: entry.rule.namespace().to_owned(),
                    domain: entry.rule.domain().to_owned(),
                    rule: entry.rule.name().to_owned(),
                    key: text_of(key),
                    id: KeyId::of(key),
                    count: *count,
                    over: entry.over,
                }
            }));
        }
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        all.truncate(most);
        all
    }
}

impl Shard {
    fn saw(&mut self, hash: u64, rule: &Arc<RuleStats>, key: KeyRef<'_>) {
        let taken = self.entries.len();
        if let Some(index) = self.hashes[..taken].iter().position(|known| *known == hash) {
            self.counts[index] += 1;
            return;
        }
        if taken < ROOM {
            let (rule, form) = (Arc::clone(rule), key.form());
            let mut entry = Entry { rule, form, key: Vec::new(), over: 0 };
            entry.put(key);
            self.entries.push(entry);
            (self.hashes[taken], self.counts[taken]) = (hash, 1);
            return;
        }
        let index = self.rarest();
        let entry = &mut self.entries[index];
        entry.over = self.fewest;
        entry.put(key);
        if !Arc::ptr_eq(&entry.rule, rule) {
            entry.rule = Arc::clone(rule);
        }
        (self.hashes[index], self.counts[index]) = (hash, self.fewest + 1);
    }

    /// The index of a key with the fewest hits in a full shard. Counts only grow, so the search
    /// goes round once for each number of hits.
    fn rarest(&mut self) -> usize {
        while self.counts[self.hand] > self.fewest {
            self.hand += 1;
            if self.hand == ROOM {
                self.hand = 0;
                self.fewest = self.counts.iter().copied().min().unwrap_or_default();
            }
        }
        self.hand
    }
}

impl Entry {
    /// Reuses the memory of the old key, because most keys come once and go.
    fn put(&mut self, key: KeyRef<'_>) {
        let long = (key.bytes().len() > KeyRef::LONGEST).then(|| OwnedKey::new(&key));
        let key = long.as_ref().map_or(key, OwnedKey::as_key_ref);
        self.form = key.form();
        self.key.clear();
        self.key.extend_from_slice(key.bytes());
    }
}

/// A key as readable text.
#[must_use]
pub fn text_of(key: KeyRef<'_>) -> String {
    if key.form() == Form::Digest {
        return key.to_string();
    }
    let parts: Vec<_> = key.parts().map(String::from_utf8_lossy).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tollgate::{Key, Parts};

    use super::*;
    use crate::observe::Scope;

    #[test]
    fn the_busiest_keys_are_found_among_many_others() {
        let (sketch, rule) =
            (Sketch::default(), Arc::new(RuleStats::new(Scope::Namespace(""), "api")));
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

    /// The promise of space-saving. It fails if another key than the rarest is replaced.
    #[test]
    fn a_count_is_never_too_low_and_its_error_is_reported() {
        let (sketch, rule) =
            (Sketch::default(), Arc::new(RuleStats::new(Scope::Namespace(""), "api")));
        let (mut came, mut total) = (HashMap::<String, u64>::new(), 0);
        let mut number = 1_u64;
        for _ in 0..200_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Small numbers are frequent.
            let key = ((number >> 33) % 100) * ((number >> 45) % 100);
            let key = key.to_string();
            sketch.saw(&rule, KeyRef::plain(key.as_bytes()));
            *came.entry(key).or_default() += 1;
        }
        for Seen { key, count, over, .. } in sketch.top(usize::MAX) {
            let truly = came[&key];
            assert!(count - over <= truly && truly <= count, "{key}: {over} {truly} {count}");
            total += count;
        }
        assert_eq!(total, 200_000);
    }

    #[test]
    fn long_keys_are_kept_as_digests() {
        let (sketch, rule) =
            (Sketch::default(), Arc::new(RuleStats::new(Scope::Namespace(""), "api")));
        let many_parts: Vec<String> = (0..10_000).map(|part| part.to_string()).collect();
        for _ in 0..2 {
            sketch.saw(&rule, KeyRef::plain("x".repeat(1_000_000).as_bytes()));
            Parts(&many_parts).with_key(|key| sketch.saw(&rule, key));
        }
        for Seen { key, count, .. } in sketch.top(usize::MAX) {
            assert!(key.starts_with("sha256:") && key.len() == 7 + 64, "{key}");
            assert_eq!(count, 2);
        }
    }

    #[test]
    fn endless_keys_take_bounded_room() {
        let (sketch, rule) =
            (Sketch::default(), Arc::new(RuleStats::new(Scope::Namespace(""), "api")));
        for key in 0..100_000_u32 {
            sketch.saw(&rule, KeyRef::plain(&key.to_be_bytes()));
        }
        assert_eq!(sketch.top(usize::MAX).len(), SHARDS * ROOM);
    }
}
