//! The denial cache: until the instant that the store named, a denial is repeated without asking
//! the store.
//!
//! The guarantee, as long as only this process changes a key: an answer from here equals what the
//! store would answer at that moment. (Of a moving window the log stays in the store, so `used` and
//! `remaining` are those of the reply.) Charges by other processes make the true wait longer than
//! the remembered one; their refunds are not seen before the remembered denial ends.
//!
//! For that, every reply of the store about a key either replaces the denial that is remembered for
//! it, or drops it: in all limiters that count in the same place. A denial may have been decided
//! before such a reply and arrive after it. So a caller notes the [`Epoch`] of the key before it
//! asks, and its denial is remembered only if nothing was dropped in between.
//!
//! Other processes may announce that they gave something back to a key
//! ([`Denials::forget_digest`]). An announcement names the key by its digest. It is counted, and a
//! denial holds only while the count is the one that was noted before the store was asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::key::{KeyRef, OwnedKey};
use crate::outcome::Outcome;
use crate::registry::lock;
use crate::time::Timestamp;

const SHARDS: usize = 64;

/// Epochs in one shard. Keys that share one by chance ask the store once more than needed.
const EPOCHS: usize = 64;

/// Counts of announcements. Keys that share one by chance ask the store once more than needed.
const ANNOUNCED: usize = 4096;

/// Remembered denials, bounded in number.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// The most entries in one shard; 0 remembers nothing.
    room: usize,
    /// The longest time that a denial is remembered, in microseconds.
    longest: u64,
    /// Announcements by other processes, by digest.
    announced: Box<[AtomicU64]>,
}

#[derive(Debug)]
struct Shard {
    entries: HashTable<RememberedDenial>,
    /// How often a denial was dropped, by key and counter.
    epochs: [u64; EPOCHS],
}

impl Default for Shard {
    fn default() -> Self {
        Shard { entries: HashTable::new(), epochs: [0; EPOCHS] }
    }
}

impl Shard {
    fn dropped(&self, hash: u64, counters: &[u64]) -> u64 {
        let epochs = counters.iter().map(|counter| self.epochs[epoch_index(hash, *counter)]);
        epochs.fold(0, u64::wrapping_add)
    }
}

fn epoch_index(hash: u64, counter: u64) -> usize {
    (hash ^ counter) as usize % EPOCHS
}

#[derive(Debug)]
struct RememberedDenial {
    /// The limits, as the number of their limiter.
    limits: u64,
    counters: Arc<[u64]>,
    key: OwnedKey,
    /// The smallest cost that was denied.
    cost: u64,
    /// The store is asked again from then on, by the clock of this process.
    until: Timestamp,
    /// When the store was asked, by the clock of this process.
    sent: Timestamp,
    /// When the denial ends, by the store's clock.
    ends: Timestamp,
    /// Whether the caller gave the time instead of the store: the two do not mix.
    given: bool,
    epoch: Epoch,
    decisions: Box<[Outcome]>,
}

/// A hit, as far as denials are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenialLookup<'a> {
    /// The limits, as the number of their limiter.
    pub(crate) limits: u64,
    /// The places where these limits count: a hash of namespace and identity for each.
    pub(crate) counters: &'a Arc<[u64]>,
    pub(crate) key: KeyRef<'a>,
    pub(crate) cost: u64,
    /// The time, if the caller gave it.
    pub(crate) at: Option<Timestamp>,
    /// When the store is asked, by the clock of this process.
    pub(crate) sent: Timestamp,
}

/// A count that changes whenever a remembered denial of a key is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    digest: u16,
    /// How often a denial was dropped here.
    dropped: u64,
    /// How often another process announced a change.
    announced: u64,
}

impl Denials {
    pub(crate) fn new(room: usize, longest: u64) -> Denials {
        Denials {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            room: room.div_ceil(SHARDS),
            longest,
            announced: (0..ANNOUNCED).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether any denial can be remembered.
    pub(crate) fn any(&self) -> bool {
        self.room > 0
    }

    fn shard(&self, key: KeyRef<'_>) -> (&Mutex<Shard>, u64) {
        let hash = key.hash(&self.hasher);
        (&self.shards[(hash >> 32) as usize % SHARDS], hash)
    }

    /// The denial if it is known, as the store would give it now; else the epoch to note.
    pub(crate) fn recall(&self, lookup: &DenialLookup<'_>) -> Result<Vec<Outcome>, Epoch> {
        self.find(lookup, RememberedDenial::answer)
    }

    /// [`recall`](Denials::recall) for a single limit, without a list on the heap.
    pub(crate) fn recall_one(&self, lookup: &DenialLookup<'_>) -> Result<Outcome, Epoch> {
        self.find(lookup, RememberedDenial::answer_one)
    }

    fn find<T>(
        &self,
        lookup: &DenialLookup<'_>,
        answer: impl FnOnce(&RememberedDenial, &DenialLookup<'_>) -> Option<T>,
    ) -> Result<T, Epoch> {
        let (shard, hash) = self.shard(lookup.key);
        let shard = lock(shard);
        let entry = shard.entries.find(hash, |entry| entry.is_for(lookup));
        let entry =
            entry.filter(|entry| self.announced(entry.epoch.digest) == entry.epoch.announced);
        let answer = entry.and_then(|entry| answer(entry, lookup));
        answer.ok_or_else(|| self.epoch_in(&shard, hash, lookup.key, lookup.counters))
    }

    fn announced(&self, digest: u16) -> u64 {
        self.announced[usize::from(digest) % ANNOUNCED].load(Ordering::Acquire)
    }

    fn epoch_in(&self, shard: &Shard, hash: u64, key: KeyRef<'_>, counters: &[u64]) -> Epoch {
        let digest = key.digest();
        let dropped = shard.dropped(hash, counters);
        Epoch { digest, dropped, announced: self.announced(digest) }
    }

    /// The epoch to note before a call that is never answered from here.
    pub(crate) fn epoch(&self, key: KeyRef<'_>, counters: &[u64]) -> Epoch {
        let (shard, hash) = self.shard(key);
        self.epoch_in(&lock(shard), hash, key, counters)
    }

    /// Remembers a denial of all these limits together, which changed nothing in the store.
    pub(crate) fn remember(&self, lookup: &DenialLookup<'_>, epoch: Epoch, decisions: &[Outcome]) {
        let &DenialLookup { limits, counters, key, cost, at, sent } = lookup;
        let (Some(first), Some(ends)) = (decisions.first(), ends(decisions)) else { return };
        // The wait counts from before the store was asked, so it rather ends too early.
        let until = sent.plus(ends.micros_since(first.now()).min(self.longest));
        let (shard, hash) = self.shard(key);
        let mut shard = lock(shard);
        if self.room == 0 || self.epoch_in(&shard, hash, key, counters) != epoch {
            return;
        }
        let new = || RememberedDenial {
            limits,
            counters: Arc::clone(counters),
            key: OwnedKey::new(&key),
            cost,
            until,
            sent,
            ends,
            given: at.is_some(),
            epoch,
            decisions: decisions.into(),
        };
        if let Some(entry) = shard.entries.find_mut(hash, |entry| entry.is_for(lookup)) {
            if entry.is_replaced_by(lookup, epoch, decisions) {
                *entry = new();
            }
            return;
        }
        if shard.entries.len() >= self.room {
            shard.entries.retain(|entry| entry.until > sent);
        }
        if shard.entries.len() < self.room {
            let rehash = |entry: &RememberedDenial| entry.key.as_key_ref().hash(&self.hasher);
            shard.entries.insert_unique(hash, new(), rehash);
        }
    }

    /// Drops the denials of a key in all limiters that count in one of these places.
    pub(crate) fn forget(&self, key: KeyRef<'_>, counters: &[u64]) {
        let (shard, hash) = self.shard(key);
        let mut shard = lock(shard);
        for counter in counters {
            let epoch = &mut shard.epochs[epoch_index(hash, *counter)];
            *epoch = epoch.wrapping_add(1);
        }
        let counts_there = |entry: &RememberedDenial| {
            entry.key.as_key_ref() == key && entry.counters.iter().any(|c| counters.contains(c))
        };
        while let Ok(entry) = shard.entries.find_entry(hash, counts_there) {
            entry.remove();
        }
    }

    /// Drops the denials of all keys with this digest: another process changed one of them.
    pub(crate) fn forget_digest(&self, digest: u16) {
        self.announced[usize::from(digest) % ANNOUNCED].fetch_add(1, Ordering::Release);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.epochs.iter_mut().for_each(|epoch| *epoch = epoch.wrapping_add(1));
            shard.entries.clear();
        }
    }
}

impl RememberedDenial {
    fn is_for(&self, lookup: &DenialLookup<'_>) -> bool {
        self.limits == lookup.limits && self.key.as_key_ref() == lookup.key
    }

    /// Whether a later denial of the same limits replaces this one. The smaller cost answers for
    /// more calls, so a larger one replaces it only if it brings something new.
    fn is_replaced_by(
        &self,
        lookup: &DenialLookup<'_>,
        epoch: Epoch,
        decisions: &[Outcome],
    ) -> bool {
        let is_known = |(old, new): (&Outcome, &Outcome)| {
            let now = old.asked_again(new.now(), self.cost);
            now.is_some_and(|now| now.used() == new.used())
        };
        lookup.cost <= self.cost
            || self.until <= lookup.sent
            || self.given != lookup.at.is_some()
            || self.epoch.announced != epoch.announced
            || !self.decisions.iter().zip(decisions).all(is_known)
    }

    /// The store's time now, if the cost is still denied for certain at that time.
    fn refuses_at(&self, lookup: &DenialLookup<'_>) -> Option<Timestamp> {
        let &DenialLookup { cost, at, sent, .. } = lookup;
        let first = self.decisions.first()?;
        // The store's time now is at most this: its clock and ours run at the same speed, and it
        // was asked after `sent`.
        let now = match at {
            Some(at) if self.given => at,
            None if !self.given && sent < self.until => {
                first.now().plus(sent.micros_since(self.sent))
            }
            _ => return None,
        };
        (cost >= self.cost && now >= first.now() && now < self.ends).then_some(now)
    }

    fn answer_one(&self, lookup: &DenialLookup<'_>) -> Option<Outcome> {
        let now = self.refuses_at(lookup)?;
        self.decisions.first()?.refused_again(now, lookup.cost)
    }

    /// The decisions as of now.
    fn answer(&self, lookup: &DenialLookup<'_>) -> Option<Vec<Outcome>> {
        let now = self.refuses_at(lookup)?;
        let again = |decision: &Outcome| decision.asked_again(now, lookup.cost);
        let decisions = self.decisions.iter().map(again).collect::<Option<Vec<_>>>()?;
        let refused = decisions.iter().any(|decision| !decision.allowed());
        refused.then_some(decisions)
    }
}

/// When the denials end, by the store's clock: the last of them. `None` for one without end, which
/// is not worth remembering.
fn ends(decisions: &[Outcome]) -> Option<Timestamp> {
    let waits = decisions.iter().filter(|decision| !decision.allowed()).map(Outcome::retry_at);
    waits.reduce(|a, b| Some(a?.max(b?))).flatten()
}
