//! The calls on a hold, and the check of what a caller passes.

use std::sync::Arc;
use std::time::Duration;

use super::record::HoldRecord;
use super::{MAX_RECORD_BYTES, MAX_TTL, MIN_TTL};
use crate::error::Error;
use crate::key::{Key, KeyRef, OwnedKey};
use crate::limit::{Algorithm, Limit, MAX_QUOTA};
use crate::policy::Policy;
use crate::together::{Counter, counted_twice, twice};

/// The largest number of items in a hold.
pub const MAX_ITEMS: usize = 16;

/// The largest number of parts of a hold: the limits of all its items.
pub const MAX_PARTS: usize = 32;

/// One call on one hold.
///
/// ```
/// use tollgate::hold::{HoldCall, HoldItem};
///
/// let items = vec![HoldItem::new("1000/minute".try_into()?, "user:42", 400)];
/// let call = HoldCall::Reserve { items, ttl: None };
/// assert!(call.check().is_ok());
/// assert!(HoldCall::Reserve { items: vec![], ttl: None }.check().is_err());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldCall {
    /// Decides all items as one all-or-nothing hit, and keeps a record of the charges.
    Reserve {
        /// The items.
        items: Vec<HoldItem>,
        /// The time until the deadline. `None` for the shortest `hold=` of the limits, else one
        /// minute.
        ttl: Option<Duration>,
    },
    /// States the total of each item, in the order of the items. `None` for an item that stays.
    Grow(Vec<Option<u64>>),
    /// States what each item really took, and ends the hold. `None`, or no entry, for an item whose
    /// estimate stands.
    Settle(Vec<Option<u64>>),
    /// Sets a new deadline, this long from now. `None` for the time that the hold had at first.
    Extend(Option<Duration>),
    /// Returns the record, and changes nothing.
    LookUp,
}

/// An item of a hold: limits, the key that they count, and the units.
///
/// See the example of [`HoldCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldItem {
    /// The limits, which all take the same units.
    pub policy: Arc<Policy>,
    /// The key.
    pub key: OwnedKey,
    /// The estimated units.
    pub units: u64,
    /// Whether the units are lowered to the smallest capacity of the limits if they exceed it.
    pub clamp: bool,
}

impl HoldItem {
    /// Creates an item.
    ///
    /// See the example of [`HoldCall`].
    pub fn new<K: Key + ?Sized>(policy: Policy, key: &K, units: u64) -> HoldItem {
        HoldItem { policy: Arc::new(policy), key: OwnedKey::new(key), units, clamp: false }
    }

    /// Lowers the units to the smallest capacity of the limits if they exceed it. Without this, a
    /// larger estimate is denied.
    #[must_use]
    pub fn clamp(self) -> HoldItem {
        HoldItem { clamp: true, ..self }
    }
}

/// One limit of an item of a hold: a counter whose state the call needs.
#[derive(Clone, Copy, Debug)]
pub struct HoldPart<'a> {
    /// The index of the item.
    pub item: usize,
    /// The limit.
    pub limit: &'a Limit,
    /// The key.
    pub key: KeyRef<'a>,
}

/// Returns the parts of items, in order.
pub(super) fn parts_of<'a>(
    items: impl Iterator<Item = (&'a Policy, &'a OwnedKey)>,
) -> Vec<HoldPart<'a>> {
    let parts = items.enumerate().flat_map(|(item, (policy, key))| {
        let part = move |limit| HoldPart { item, limit, key: key.as_key_ref() };
        policy.limits().iter().map(part)
    });
    parts.collect()
}

impl HoldCall {
    /// Returns the parts whose states [`decide`](super::decide) needs, in order: of the items of a
    /// reservation, else of the record. Empty if there is no record, and for a look-up.
    #[must_use]
    pub fn parts<'a>(&'a self, record: Option<&'a HoldRecord>) -> Vec<HoldPart<'a>> {
        match (self, record) {
            (HoldCall::Reserve { items, .. }, _) => {
                parts_of(items.iter().map(|item| (&*item.policy, &item.key)))
            }
            (HoldCall::LookUp, _) | (_, None) => Vec::new(),
            (_, Some(record)) => record.parts(),
        }
    }

    /// Checks the values that the caller passed. A store that is called directly checks each call
    /// first.
    ///
    /// # Errors
    /// Fails if a value breaks a rule. The error states the value and the rule.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            HoldCall::Reserve { items, ttl } => {
                check_ttl(*ttl)?;
                check_items(items)
            }
            HoldCall::Extend(ttl) => check_ttl(*ttl),
            HoldCall::Grow(figures) | HoldCall::Settle(figures) => {
                if figures.len() > MAX_ITEMS {
                    return Err(Error::request(format!(
                        "{} figures: a hold has at most {MAX_ITEMS} items",
                        figures.len()
                    )));
                }
                figures.iter().flatten().try_for_each(|units| check_units(*units))
            }
            HoldCall::LookUp => Ok(()),
        }
    }
}

fn check_ttl(ttl: Option<Duration>) -> Result<(), Error> {
    match ttl {
        Some(ttl) if !(MIN_TTL..=MAX_TTL).contains(&ttl) => {
            Err(Error::request(format!("ttl {ttl:?}: must be from 1 second to 24 hours")))
        }
        _ => Ok(()),
    }
}

fn check_units(units: u64) -> Result<(), Error> {
    if units <= MAX_QUOTA {
        return Ok(());
    }
    Err(Error::request(format!("{units} units: must be at most {MAX_QUOTA}")))
}

fn check_items(items: &[HoldItem]) -> Result<(), Error> {
    if items.is_empty() || items.len() > MAX_ITEMS {
        let count = items.len();
        return Err(Error::request(format!("{count} items: a hold has 1 to {MAX_ITEMS}")));
    }
    let parts = items.iter().map(|item| item.policy.limits().len()).sum::<usize>();
    if parts > MAX_PARTS {
        return Err(Error::request(format!("{parts} limits: a hold has at most {MAX_PARTS}")));
    }
    for (index, item) in items.iter().enumerate() {
        check_units(item.units)?;
        let has_slots =
            |limit: &Limit| limit.algorithm() == Algorithm::Concurrent && item.units == 0;
        if let Some(limit) = item.policy.limits().iter().find(|limit| has_slots(limit)) {
            return Err(Error::request(format!(
                "item {index}: 0 units of {limit}: a hold takes at least 1 unit of a concurrency limit"
            )));
        }
    }
    let definitions = super::record::definition_bytes(items);
    if definitions > MAX_RECORD_BYTES / 2 {
        return Err(Error::request(format!(
            "items of {definitions} bytes: limits and keys of a hold take at most {}",
            MAX_RECORD_BYTES / 2
        )));
    }
    let parts = parts_of(items.iter().map(|item| (&*item.policy, &item.key)));
    let counters =
        parts.iter().map(|part| (part.key, Counter { namespace: "", limit: part.limit }));
    if let Some(key) = twice(counters) {
        return Err(counted_twice(key));
    }
    Ok(())
}
