//! Hits on several keys, of which all are charged or none.

use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::{Key, KeyRef, OwnedKey};
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::store::{HitItem, Store};

/// A limiter, a key and a cost: one part of an all-or-nothing hit.
///
/// See the example of [`hit_all`].
#[derive(Debug)]
pub struct Item<'a, S: Store> {
    limiter: &'a Limiter<S>,
    key: OwnedKey,
    cost: u64,
}

impl<'a, S: Store> Item<'a, S> {
    pub(crate) fn new<K: Key>(limiter: &'a Limiter<S>, key: K, cost: u64) -> Self {
        Item { limiter, key: OwnedKey::new(&key), cost }
    }
}

/// Hits several keys, each with a limiter of the same store. All keys are charged or none is.
///
/// # Errors
/// Fails if the list is empty, contains the same key twice for the same limit, or contains limiters
/// of different stores.
///
/// ```
/// use tollgate::{Memory, hit_all};
///
/// let store = Memory::new();
/// let accounts = store.limiter("2/hour")?;
/// let addresses = store.limiter("1/second; 9/hour")?;
///
/// let both = || hit_all(&[accounts.item("alice", 1), addresses.item("192.0.2.1", 1)]);
/// assert!(both()?.allowed());
/// let refused = both()?;
/// assert!(!refused.allowed());
/// assert!(refused.outcomes()[0].allowed(), "the account alone would have passed");
/// assert_eq!(accounts.usage("alice"), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn hit_all<S: Store>(items: &[Item<'_, S>]) -> Result<Decision, Error> {
    let Some(first) = items.first() else {
        return Err(Error::request("0 items: an all-or-nothing hit needs at least one"));
    };
    hit_all_at(items, first.limiter.store.now())
}

/// Does the same as [`hit_all`], at a given time.
///
/// # Errors
/// Fails if [`hit_all`] does.
///
/// ```
/// use tollgate::{Memory, Timestamp, hit_all_at};
/// let limiter = Memory::new().limiter("2/hour")?;
/// assert!(hit_all_at(&[limiter.item("alice", 1)], Timestamp::from_micros(5))?.allowed());
/// assert!(hit_all_at(&[limiter.item("a", 1), limiter.item("a", 1)], Timestamp::EPOCH).is_err());
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn hit_all_at<S: Store>(
    items: &[Item<'_, S>],
    now: crate::Timestamp,
) -> Result<Decision, Error> {
    let Some(first) = items.first() else {
        return Err(Error::request("0 items: an all-or-nothing hit needs at least one"));
    };
    let store = &first.limiter.store;
    if let Some(index) = items.iter().position(|item| !store.same_store(&item.limiter.store)) {
        return Err(Error::request(format!(
            "item {index}: belongs to another store than item 0; an all-or-nothing hit decides within one store"
        )));
    }
    let hits: Vec<_> = items
        .iter()
        .flat_map(|item| {
            let hit = |prepared| HitItem { prepared, key: item.key.as_key_ref(), cost: item.cost };
            item.limiter.prepared().map(hit)
        })
        .collect();
    let counters = items
        .iter()
        .flat_map(|item| item.limiter.counters().map(|counter| (item.key.as_key_ref(), counter)));
    if let Some(key) = twice(counters) {
        return Err(counted_twice(key));
    }
    of_items(Decision::from_outcomes(store.hit_together(&hits, now)))
}

/// Gives back the charges of [`hit_all`]. It takes the same items in the same order, and the
/// decision.
///
/// # Errors
/// Fails if the number of limits in the decision differs from that of the items.
///
/// ```
/// use tollgate::{Memory, hit_all, refund_all};
///
/// let store = Memory::new();
/// let (accounts, addresses) = (store.limiter("2/hour")?, store.limiter("1/second; 9/hour")?);
/// let items = [accounts.item("alice", 1), addresses.item("192.0.2.1", 1)];
/// let decision = hit_all(&items)?;
/// refund_all(&items, &decision)?;
/// assert_eq!(accounts.usage("alice"), 0);
/// assert!(refund_all(&items[..1], &decision).is_err());
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn refund_all<S: Store>(items: &[Item<'_, S>], decision: &Decision) -> Result<Decision, Error> {
    let limits: Vec<usize> = items.iter().map(|item| item.limiter.limits().len()).collect();
    let receipts = decision.receipts_by_item(&limits)?;
    let mut outcomes = Vec::with_capacity(decision.outcomes().len());
    for (item, receipts) in items.iter().zip(receipts) {
        let store = &item.limiter.store;
        let now = store.now();
        for (prepared, receipt) in item.limiter.prepared().zip(receipts) {
            let key = item.key.as_key_ref();
            outcomes.push(store.apply(prepared, key, now, Op::Refund(receipt)));
        }
    }
    of_items(Decision::from_outcomes(outcomes))
}

/// Returns the decision, or an error if there were no items.
pub(crate) fn of_items(decision: Option<Decision>) -> Result<Decision, Error> {
    decision.ok_or_else(|| Error::request("0 items: an all-or-nothing hit needs at least one"))
}

pub(crate) fn counted_twice(key: KeyRef<'_>) -> Error {
    Error::request(format!(
        "key {key} twice for one limit: an all-or-nothing hit may contain it only once"
    ))
}

/// The parts that identify a counter of a store, except the key.
#[derive(Clone, Copy)]
pub(crate) struct Counter<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) limit: &'a Limit,
}

impl Counter<'_> {
    fn is(&self, other: &Counter<'_>) -> bool {
        self.namespace == other.namespace && self.limit.identity() == other.limit.identity()
    }
}

/// Returns the first key that appears twice for one counter.
pub(crate) fn twice<'a>(
    counters: impl Iterator<Item = (KeyRef<'a>, Counter<'a>)>,
) -> Option<KeyRef<'a>> {
    let mut by_key: Vec<_> = counters.collect();
    by_key.sort_unstable_by_key(|(key, _)| (key.bytes(), key.form() as u8));
    by_key.chunk_by(|a, b| a.0 == b.0).find_map(|same| {
        let is_twice = |(index, (key, counter)): (usize, &(KeyRef<'a>, Counter<'a>))| {
            same[..index].iter().any(|(_, other)| other.is(counter)).then_some(*key)
        };
        same.iter().enumerate().find_map(is_twice)
    })
}
