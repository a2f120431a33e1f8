//! Hits on several keys of a shared store, of which all are charged or none.

use super::asking::{LimiterParts, Terms};
use super::failure::OnFailure;
use super::forget::Call;
use super::{HitItem, SharedStore};
use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::{Key, OwnedKey};
use crate::outcome::{Outcome, Source};
use crate::store::Store;
use crate::time::Timestamp;
use crate::together::{counted_twice, of_items, twice};

/// A limiter of a shared store, a key and a cost: one part of an all-or-nothing hit.
///
/// See the example of [`hit_all_shared`].
#[derive(Debug)]
pub struct SharedItem<'a, S: SharedStore> {
    limits: &'a LimiterParts<S>,
    key: OwnedKey,
    cost: u64,
}

impl<'a, S: SharedStore> SharedItem<'a, S> {
    pub(crate) fn new<K: Key>(limits: &'a LimiterParts<S>, key: K, cost: u64) -> Self {
        SharedItem { limits, key: OwnedKey::new(&key), cost }
    }
}

/// Does the same as [`hit_all`](crate::hit_all) on a shared store, at the store's time or a given
/// time. If the store fails, the strictest rule of the limiters applies: an error before closed,
/// closed before local, and local before open.
///
/// # Errors
/// Fails if the list is empty, contains the same key twice for the same limit, or contains limiters
/// of different stores. Fails if the store cannot decide these keys together, or does not answer.
///
/// ```
/// use tollgate::Memory;
/// use tollgate::shared::{InProcess, SharedLimiter, hit_all_shared};
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let store = InProcess::new(Memory::new());
/// let accounts = SharedLimiter::new(&store, "", "2/hour")?;
/// let addresses = SharedLimiter::new(&store, "", "1/second")?;
/// let both = [accounts.item("alice", 1), addresses.item("192.0.2.1", 1)];
/// assert!(hit_all_shared(&both, None).await?.allowed());
/// assert!(!hit_all_shared(&both, None).await?.allowed());
/// # Ok(())
/// # }
/// ```
pub async fn hit_all_shared<S: SharedStore>(
    items: &[SharedItem<'_, S>],
    at: Option<Timestamp>,
) -> Result<Decision, Error> {
    let Some(first) = items.first() else {
        return Err(Error::request("0 items: an all-or-nothing hit needs at least one"));
    };
    let store = &first.limits.store;
    if let Some(index) =
        items.iter().position(|item| !std::ptr::eq(store.guard(), item.limits.store.guard()))
    {
        return Err(Error::request(format!(
            "item {index}: belongs to another store than item 0; an all-or-nothing hit decides within one store"
        )));
    }
    let hits: Vec<HitItem<'_, S::Prepared>> = items
        .iter()
        .flat_map(|item| {
            let hit = |prepared| HitItem { prepared, key: item.key.as_key_ref(), cost: item.cost };
            item.limits.prepared.iter().map(hit)
        })
        .collect();
    let counters = items
        .iter()
        .flat_map(|item| item.limits.counters().map(|counter| (item.key.as_key_ref(), counter)));
    if let Some(key) = twice(counters) {
        return Err(counted_twice(key));
    }
    let lane = store.lane(hits[0].prepared, hits[0].key);
    let deadline = items.iter().map(|item| item.limits.deadline).min().unwrap_or_default();
    let terms = Terms { at, deadline };
    let begin = |deadline| store.ask_together(&hits, at, deadline);
    let sent = store.guard().now();
    let calls: Vec<_> =
        items.iter().map(|item| Call::sent(item.limits, terms, &item.key, sent, None)).collect();
    let answer = match settle(items, terms).await {
        Ok(terms) => store.guard().call(lane, terms.deadline, begin).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(outcomes) => {
            let mut rest = &outcomes[..];
            for (call, item) in calls.into_iter().zip(items) {
                let (own, others) = rest.split_at(item.limits.prepared.len().min(rest.len()));
                call.decided(item.cost, own);
                rest = others;
            }
            of_items(Decision::from_outcomes(outcomes))
        }
        Err(error) => {
            calls.into_iter().for_each(|call| call.failed(&error));
            without_store(&error, items, at).ok_or(error)
        }
    }
}

/// Charges the units that the fallbacks admitted for these keys to the store, before the hit.
async fn settle<S: SharedStore>(
    items: &[SharedItem<'_, S>],
    mut terms: Terms,
) -> Result<Terms, Error> {
    for item in items {
        terms = item.limits.settle(terms, &item.key).await?;
    }
    Ok(terms)
}

/// Gives back the charges of [`hit_all_shared`]. It takes the same items in the same order, and the
/// decision. The items are refunded one after the other. Units that a fallback charged are given
/// back to the fallback.
///
/// # Errors
/// Fails if the number of limits in the decision differs from that of the items. Fails if the store
/// does not answer; then some items may have been refunded.
///
/// ```
/// use tollgate::Memory;
/// use tollgate::shared::{InProcess, SharedLimiter, hit_all_shared, refund_all_shared};
///
/// # async fn example() -> Result<(), tollgate::Error> {
/// let limiter = SharedLimiter::new(&InProcess::new(Memory::new()), "", "9/hour")?;
/// let items = [limiter.item("alice", 1), limiter.item("bob", 2)];
/// let decision = hit_all_shared(&items, None).await?;
/// refund_all_shared(&items, &decision, None).await?;
/// # Ok(())
/// # }
/// ```
pub async fn refund_all_shared<S: SharedStore>(
    items: &[SharedItem<'_, S>],
    decision: &Decision,
    at: Option<Timestamp>,
) -> Result<Decision, Error> {
    let limits: Vec<usize> = items.iter().map(|item| item.limits.prepared.len()).collect();
    let mut outcomes = Vec::new();
    for (item, receipts) in items.iter().zip(decision.receipts_by_item(&limits)?) {
        let terms = Terms { at, ..item.limits.terms() };
        let receipts: Vec<_> = receipts.into_iter().enumerate().collect();
        outcomes.extend(item.limits.refund(terms, &item.key, &receipts).await?);
    }
    of_items(Decision::from_outcomes(outcomes))
}

fn without_store<S: SharedStore>(
    error: &Error,
    items: &[SharedItem<'_, S>],
    at: Option<Timestamp>,
) -> Option<Decision> {
    if !error.is_of_store() {
        return None;
    }
    let strictness = |item: &SharedItem<'_, S>| match item.limits.on_failure {
        OnFailure::Error => 3,
        OnFailure::Closed => 2,
        OnFailure::Local(_) => 1,
        OnFailure::Open => 0,
    };
    let strictest = items.iter().max_by_key(|item| strictness(item))?;
    let guard = strictest.limits.store.guard();
    let now = at.unwrap_or_else(|| guard.now());
    let outcomes = match strictest.limits.on_failure {
        OnFailure::Error => return None,
        OnFailure::Closed => {
            guard.counters.failed_closed.add();
            let closed = |item: &SharedItem<'_, S>| {
                item.limits.closed(now, item.key.as_key_ref(), item.cost)
            };
            items.iter().flat_map(closed).collect()
        }
        OnFailure::Local(_) => {
            guard.counters.fallback.add();
            local(items, at, now)
        }
        OnFailure::Open => {
            guard.counters.failed_open.add();
            let open = |item: &SharedItem<'_, S>| item.limits.open(now, Op::Hit(item.cost));
            items.iter().flat_map(open).collect()
        }
    };
    Decision::from_outcomes(outcomes)
}

/// Hits the items that have a fallback, all or none. The other items are allowed.
fn local<S: SharedStore>(
    items: &[SharedItem<'_, S>],
    at: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Outcome> {
    let mut hits = Vec::new();
    for item in items {
        hits.extend(
            item.limits.fallback.iter().flat_map(|f| f.items(item.key.as_key_ref(), item.cost)),
        );
    }
    let decided = items[0].limits.store.guard().fallback().hit_together(&hits, now);
    let mut decided = decided.into_iter().map(|outcome| outcome.with_source(Source::Fallback));
    let mut outcomes = Vec::new();
    for item in items {
        let own = item.limits.prepared.len();
        match item.limits.fallback {
            Some(_) => {
                let decisions: Vec<_> = decided.by_ref().take(own).collect();
                let terms = Terms { at, ..item.limits.terms() };
                item.limits.owe(terms, item.key.as_key_ref(), &decisions);
                outcomes.extend(decisions);
            }
            None => outcomes.extend(item.limits.open(now, Op::Hit(item.cost))),
        }
    }
    outcomes
}
