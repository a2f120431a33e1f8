//! Several keys, all or nothing.

use std::time::Duration;

use crate::decision::Decision;
use crate::error::Error;
use crate::key::{Form, Key, KeyRef};
use crate::store::{Part, Store};

/// A limit or policy, a key and a cost: one of several that pass together or not at all.
///
/// See the example of [`hit_all`].
#[derive(Debug)]
pub struct Item<'a, S: Store> {
    store: &'a S,
    prepared: &'a [S::Prepared],
    form: Form,
    key: Box<[u8]>,
    cost: u64,
}

impl<'a, S: Store> Item<'a, S> {
    pub(crate) fn new<K: Key>(
        store: &'a S,
        prepared: &'a [S::Prepared],
        key: K,
        cost: u64,
    ) -> Self {
        key.with_key(|key| Item {
            store,
            prepared,
            form: key.form(),
            key: key.bytes().into(),
            cost,
        })
    }

    fn key(&self) -> KeyRef<'_> {
        KeyRef::from_parts(self.form, &self.key)
    }
}

/// The answer for several keys: all were charged, or none was.
///
/// See the example of [`hit_all`].
#[derive(Clone, Debug)]
#[must_use]
pub struct AllDecision {
    allowed: bool,
    outcomes: Vec<Decision>,
}

impl AllDecision {
    /// Whether all passed.
    ///
    /// See the example of [`hit_all`].
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.allowed
    }

    /// What each limit of each item said, in order. `allowed` of a single outcome tells what that limit alone says.
    ///
    /// See the example of [`hit_all`].
    pub fn outcomes(&self) -> &[Decision] {
        &self.outcomes
    }

    /// The longest wait of those that refuse: zero when allowed, `None` when one of them can never pass.
    ///
    /// See the example of [`hit_all`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.outcomes.iter().map(Decision::retry_after);
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }
}

/// Hits several keys, of any limits and policies of one store: all are charged or none is.
///
/// # Errors
/// An empty list, the same key of the same limit twice, or limiters of different stores.
///
/// ```
/// use tollgate::{Memory, hit_all};
///
/// let store = Memory::new();
/// let accounts = store.limiter("2/hour")?;
/// let addresses = store.policy_limiter("1/second; 9/hour")?;
///
/// let both = || hit_all(&[accounts.item("alice", 1), addresses.item("192.0.2.1", 1)]);
/// assert!(both()?.allowed());
/// let refused = both()?;
/// assert!(!refused.allowed());
/// assert!(refused.outcomes()[0].allowed(), "the account alone would have passed");
/// assert_eq!(accounts.usage("alice"), 1);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn hit_all<S: Store>(items: &[Item<'_, S>]) -> Result<AllDecision, Error> {
    let Some(first) = items.first() else {
        return Err(Error::request("0 items: hit_all needs at least one"));
    };
    hit_all_at(items, first.store.now())
}

/// [`hit_all`] at a given time.
///
/// # Errors
/// As [`hit_all`].
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
) -> Result<AllDecision, Error> {
    let Some(first) = items.first() else {
        return Err(Error::request("0 items: hit_all needs at least one"));
    };
    let store = first.store;
    if let Some(index) = items.iter().position(|item| !store.same_store(item.store)) {
        return Err(Error::request(format!(
            "item {index}: belongs to another store than item 0; hit_all decides within one store"
        )));
    }
    let parts: Vec<_> = items
        .iter()
        .flat_map(|item| {
            let part = |prepared| Part { prepared, key: item.key(), cost: item.cost };
            item.prepared.iter().map(part)
        })
        .collect();
    if let Some(twice) = twice(store, &parts) {
        return Err(Error::request(format!(
            "key {} twice for one limit: each may stand once in hit_all",
            twice.key
        )));
    }
    let mut outcomes = Vec::with_capacity(parts.len());
    let allowed = store.hit_together(&parts, now, &mut |decision| outcomes.push(decision));
    Ok(AllDecision { allowed, outcomes })
}

fn twice<'p, 'a, S: Store>(
    store: &S,
    parts: &'p [Part<'a, S::Prepared>],
) -> Option<&'p Part<'a, S::Prepared>> {
    let mut by_key: Vec<_> = parts.iter().collect();
    by_key.sort_unstable_by_key(|part| (part.key.bytes(), part.key.form() as u8));
    by_key.chunk_by(|a, b| a.key == b.key).find_map(|same| {
        let is_twice = |(index, part): (usize, &&'p Part<'a, S::Prepared>)| {
            let mut before = same[..index].iter();
            before.any(|other| store.same_counter(other.prepared, part.prepared)).then_some(*part)
        };
        same.iter().enumerate().find_map(is_twice)
    })
}
