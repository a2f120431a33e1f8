//! Denials that need not be asked for again: until the instant the store named, the answer is known.
//!
//! Kept per key, because whatever gives units back names a key: then all that is remembered of it goes. A caller that was on its way to the
//! store meanwhile may bring home a denial from before; the `epoch` it took along tells, and it is not remembered.

use std::sync::Mutex;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::decision::{Decision, Source};
use crate::key::{KeyRef, OwnedKey};
use crate::registry::lock;
use crate::time::Timestamp;

const SHARDS: usize = 64;

/// Remembered denials, bounded.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// The most entries in one shard; 0 remembers nothing.
    room: usize,
    /// For how long at most, in microseconds.
    longest: u64,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashTable<Entry>,
    /// How often something was forgotten on purpose.
    epoch: u64,
}

#[derive(Debug)]
struct Entry {
    /// Which limits, by the number of their limiter.
    limits: u64,
    key: OwnedKey,
    /// The smallest cost that was denied.
    cost: u64,
    /// Asked again from then on, by the clock of this process.
    until: Timestamp,
    /// When the store was asked, by the clock of this process.
    sent: Timestamp,
    /// When the refusal ends, by the store's clock.
    ends: Timestamp,
    /// Whether the time was given, not the store's: the two do not mix.
    given: bool,
    decisions: Box<[Decision]>,
}

/// A hit, as far as denials are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// Which limits, by the number of their limiter.
    pub(crate) limits: u64,
    pub(crate) key: KeyRef<'a>,
    pub(crate) cost: u64,
    /// The time, if it is given.
    pub(crate) at: Option<Timestamp>,
    /// When it is asked, by the clock of this process.
    pub(crate) sent: Timestamp,
}

/// What a caller takes along to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(u64);

impl Denials {
    pub(crate) fn new(room: usize, longest: u64) -> Denials {
        Denials {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            room: room.div_ceil(SHARDS),
            longest,
        }
    }

    /// Whether there is room for any.
    pub(crate) fn any(&self) -> bool {
        self.room > 0
    }

    fn shard(&self, key: KeyRef<'_>) -> (&Mutex<Shard>, u64) {
        let hash = key.hash(&self.hasher);
        (&self.shards[(hash >> 32) as usize % SHARDS], hash)
    }

    /// The denial if it is known, as the store would give it now; else what to take along to the store.
    pub(crate) fn recall(&self, question: &Question<'_>) -> Result<Vec<Decision>, Epoch> {
        let (shard, hash) = self.shard(question.key);
        let shard = lock(shard);
        let epoch = Epoch(shard.epoch);
        let entry = shard.entries.find(hash, |entry| entry.is_for(question)).ok_or(epoch)?;
        entry.answer(question).ok_or(epoch)
    }

    /// [`recall`](Denials::recall) for a single limit: the answer that must be quick needs no list.
    pub(crate) fn recall_one(&self, question: &Question<'_>) -> Result<Decision, Epoch> {
        let (shard, hash) = self.shard(question.key);
        let shard = lock(shard);
        let epoch = Epoch(shard.epoch);
        let entry = shard.entries.find(hash, |entry| entry.is_for(question)).ok_or(epoch)?;
        entry.answer_one(question).ok_or(epoch)
    }

    /// Remembers what the store said, if it is a denial of all these limits together.
    pub(crate) fn remember(&self, question: &Question<'_>, epoch: Epoch, decisions: &[Decision]) {
        let &Question { limits, key, cost, at, sent } = question;
        let Some(first) = decisions.first().filter(|first| first.source() == Source::Store) else {
            return;
        };
        let Some(ends) = ends(decisions) else { return };
        // Counted from before the store was asked, so rather too early.
        let until = sent.plus(ends.micros_since(first.now()).min(self.longest));
        let (shard, hash) = self.shard(key);
        let mut shard = lock(shard);
        if self.room == 0 || shard.epoch != epoch.0 {
            return;
        }
        let new = || Entry {
            limits,
            key: OwnedKey::new(&key),
            cost,
            until,
            sent,
            ends,
            given: at.is_some(),
            decisions: decisions.into(),
        };
        if let Some(entry) = shard.entries.find_mut(hash, |entry| entry.is_for(question)) {
            // The smaller cost answers for more, unless its time is over.
            if cost <= entry.cost || entry.until <= sent {
                *entry = new();
            }
            return;
        }
        if shard.entries.len() >= self.room {
            shard.entries.retain(|entry| entry.until > sent);
        }
        if shard.entries.len() < self.room {
            let rehash = |entry: &Entry| entry.key.as_ref().hash(&self.hasher);
            shard.entries.insert_unique(hash, new(), rehash);
        }
    }

    /// Forgets what is known of a key, in all limits.
    pub(crate) fn forget(&self, key: KeyRef<'_>) {
        let (shard, hash) = self.shard(key);
        let mut shard = lock(shard);
        shard.epoch += 1;
        while let Ok(entry) = shard.entries.find_entry(hash, |entry| entry.key.as_ref() == key) {
            entry.remove();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.epoch += 1;
            shard.entries.clear();
        }
    }
}

impl Entry {
    fn is_for(&self, question: &Question<'_>) -> bool {
        self.limits == question.limits && self.key.as_ref() == question.key
    }

    /// The store's time now, if it is one at which the cost is still refused for certain.
    fn refuses_at(&self, question: &Question<'_>) -> Option<Timestamp> {
        let &Question { cost, at, sent, .. } = question;
        let first = self.decisions.first()?;
        // The store's time now is at most this: its clock and ours run alike, and it was asked after `sent`.
        let now = match at {
            Some(at) if self.given => at,
            None if !self.given && sent < self.until => {
                first.now().plus(sent.micros_since(self.sent))
            }
            _ => return None,
        };
        (cost >= self.cost && now >= first.now() && now < self.ends).then_some(now)
    }

    fn answer_one(&self, question: &Question<'_>) -> Option<Decision> {
        let now = self.refuses_at(question)?;
        self.decisions.first()?.refused_again(now, question.cost)
    }

    /// The decisions as of now.
    fn answer(&self, question: &Question<'_>) -> Option<Vec<Decision>> {
        let now = self.refuses_at(question)?;
        let again = |decision: &Decision| decision.asked_again(now, question.cost);
        let decisions = self.decisions.iter().map(again).collect::<Option<Vec<_>>>()?;
        let refused = decisions.iter().any(|decision| !decision.allowed());
        refused.then_some(decisions)
    }
}

/// When a refusal ends, by the store's clock: the last of those that refuse. `None` for one without end, which is no use to remember.
fn ends(decisions: &[Decision]) -> Option<Timestamp> {
    let waits = decisions.iter().filter(|decision| !decision.allowed()).map(Decision::retry_at);
    waits.reduce(|a, b| Some(a?.max(b?))).flatten()
}
