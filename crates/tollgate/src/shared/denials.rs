//! The denial cache. A denial of the store is repeated without asking the store again, until the
//! time at which the hit would pass.
//!
//! As long as only this process changes a key, an answer from the cache equals the answer that the
//! store would give at that time. (The log of a moving window stays in the store, so `used` and
//! `remaining` are those of the store's last answer.) If other processes charge the key, the true
//! wait is longer than the remembered one. If they refund it, the remembered denial still holds
//! until it ends.
//!
//! Every answer of the store about a key replaces or drops the denial remembered for the key, in
//! all limiters that use the same counter. But a denial may have been decided before such an answer
//! and arrive after it. So a caller notes the [`Epoch`] of the key before it asks, and its denial
//! is remembered only if no denial of the key was dropped in between.
//!
//! Other processes may announce that they have refunded or reset a key
//! ([`Denials::forget_digest`]). An announcement contains the digest of the key. Announcements are
//! counted by digest, and a remembered denial holds only while the count is the one that was noted
//! before the store was asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::key::{KeyRef, OwnedKey};
use crate::keyed::lock;
use crate::outcome::Outcome;
use crate::time::Timestamp;

const SHARDS: usize = 64;

/// The number of epoch counters in one shard. If two keys share a counter, dropping the denials of
/// one key may also prevent a denial of the other key from being remembered.
const EPOCHS: usize = 64;

/// The number of counters of announcements. If two keys share a counter, an announcement about one
/// key also drops the denials of the other key.
const ANNOUNCED: usize = 4096;

/// The remembered denials, with an upper bound on their number.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// The largest number of entries in one shard. With 0 no denial is remembered.
    room: usize,
    /// The longest time that a denial is remembered, in microseconds.
    longest: u64,
    /// The counts of announcements by other processes, by digest.
    announced: Box<[AtomicU64]>,
}

#[derive(Debug)]
struct Shard {
    entries: HashTable<RememberedDenial>,
    /// The counts of dropped denials, by a hash of key and counter.
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
    /// The number of the limiter, which identifies the limits.
    limits: u64,
    counters: Arc<[u64]>,
    key: OwnedKey,
    /// The smallest cost that was denied.
    cost: u64,
    /// The time from which the store is asked again, by the clock of this process.
    until: Timestamp,
    /// The time at which the store was asked, by the clock of this process.
    sent: Timestamp,
    /// The time at which the denial ends, by the store's clock.
    ends: Timestamp,
    /// Whether the caller passed the time, which is then not the store's time. Such a denial is
    /// only used for calls with a given time.
    given: bool,
    epoch: Epoch,
    decisions: Box<[Outcome]>,
}

/// The parts of a hit that are needed to find or remember a denial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenialLookup<'a> {
    /// The number of the limiter, which identifies the limits.
    pub(crate) limits: u64,
    /// The counters of these limits: a hash of namespace and identity for each limit.
    pub(crate) counters: &'a Arc<[u64]>,
    pub(crate) key: KeyRef<'a>,
    pub(crate) cost: u64,
    /// The time, if the caller passed it.
    pub(crate) at: Option<Timestamp>,
    /// The time at which the store is asked, by the clock of this process.
    pub(crate) sent: Timestamp,
}

/// Counts that change whenever the remembered denials of a key are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    digest: u16,
    /// How often this process dropped denials.
    dropped: u64,
    /// How often other processes announced a change.
    announced: u64,
}

impl Denials {
    pub(crate) fn new(room: usize, longest: u64) -> Denials {
        Denials {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            room: if longest == 0 { 0 } else { room.div_ceil(SHARDS) },
            longest,
            announced: (0..ANNOUNCED).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether denials are remembered at all.
    pub(crate) fn any(&self) -> bool {
        self.room > 0
    }

    fn shard(&self, key: KeyRef<'_>) -> (&Mutex<Shard>, u64) {
        let hash = key.hash(&self.hasher);
        (&self.shards[(hash >> 32) as usize % SHARDS], hash)
    }

    /// Returns the remembered denial as the store would answer now. The error is the epoch to note
    /// before the store is asked.
    pub(crate) fn recall(&self, lookup: &DenialLookup<'_>) -> Result<Vec<Outcome>, Epoch> {
        self.find(lookup, RememberedDenial::answer)
    }

    /// Does the same as [`recall`](Denials::recall) for a single limit, without allocating a list.
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

    /// Returns the epoch to note before a call that always asks the store.
    pub(crate) fn epoch(&self, key: KeyRef<'_>, counters: &[u64]) -> Epoch {
        let (shard, hash) = self.shard(key);
        self.epoch_in(&lock(shard), hash, key, counters)
    }

    /// Remembers a denial of all these limits together. The denial has changed nothing in the
    /// store.
    pub(crate) fn remember(&self, lookup: &DenialLookup<'_>, epoch: Epoch, decisions: &[Outcome]) {
        let &DenialLookup { limits, counters, key, at, sent, .. } = lookup;
        // A ban denies every cost.
        let cost = if is_banned(decisions) { 0 } else { lookup.cost };
        let (Some(first), Some(ends)) = (decisions.first(), ends(decisions)) else { return };
        // The wait begins at the time before the store was asked, so it may end slightly too early,
        // but never too late.
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

    /// Drops the denials of a key in all limiters that use one of these counters.
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

    /// Drops the denials of all keys with this digest, because another process changed one of them.
    pub(crate) fn forget_digest(&self, digest: u16) {
        self.announced[usize::from(digest) % ANNOUNCED].fetch_add(1, Ordering::Release);
    }

    /// Drops all denials.
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

    /// Returns whether a later denial of the same limits replaces this one. A denial of a smaller
    /// cost answers more calls, so a denial of a larger cost replaces it only if this one has ended
    /// or is no longer correct.
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

    /// Returns the current time of the store if the cost is certainly still denied at that time.
    fn refuses_at(&self, lookup: &DenialLookup<'_>) -> Option<Timestamp> {
        let &DenialLookup { cost, at, sent, .. } = lookup;
        let first = self.decisions.first()?;
        // The store's current time is at most this, because its clock and our clock run at the same
        // speed, and the store was asked after `sent`.
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

    /// Returns the decisions as the store would make them now.
    fn answer(&self, lookup: &DenialLookup<'_>) -> Option<Vec<Outcome>> {
        let now = self.refuses_at(lookup)?;
        let again = |decision: &Outcome| decision.asked_again(now, lookup.cost);
        let decisions = self.decisions.iter().map(again).collect::<Option<Vec<_>>>()?;
        let refused = decisions.iter().any(|decision| !decision.allowed());
        refused.then_some(decisions)
    }
}

/// Returns the time at which the last of the denials ends, by the store's clock. `None` if one of
/// them never ends; such a denial is not remembered.
fn ends(decisions: &[Outcome]) -> Option<Timestamp> {
    let banned = is_banned(decisions);
    let denies = |decision: &&Outcome| if banned { decision.banned() } else { !decision.allowed() };
    let waits = decisions.iter().filter(denies).map(Outcome::retry_at);
    waits.reduce(|a, b| Some(a?.max(b?))).flatten()
}

fn is_banned(decisions: &[Outcome]) -> bool {
    decisions.iter().any(Outcome::banned)
}
