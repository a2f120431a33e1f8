//! The record that a store keeps of a hold, and its bytes.

use std::sync::Arc;
use std::time::Duration;

use super::call::{HoldItem, HoldPart, parts_of};
use crate::key::{Form, KeyRef, OwnedKey};
use crate::leb128::{put, take};
use crate::outcome::{Receipt, Source};
use crate::policy::Policy;
use crate::time::{Timestamp, micros_up};

/// The largest number of receipts that a record keeps for one limit of an item. Beyond that the
/// oldest is forgotten, and its units stay charged.
pub const MAX_RECEIPTS: usize = 32;

/// The largest size of a record.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// What a store keeps of a hold: the definition of each limit and what was charged where.
///
/// ```
/// use tollgate::Timestamp;
/// use tollgate::hold::{HoldCall, HoldId, HoldItem, HoldRecord, HoldTerms, decide};
///
/// let item = HoldItem::new("1000/minute".try_into()?, "user:42", 400);
/// let call = HoldCall::Reserve { items: vec![item], ttl: None };
/// let (id, now) = (HoldId::random("user:42"), Timestamp::from_micros(1_000_000));
/// let (mut record, mut states) = (None, [None]);
/// let reply = decide(&id, &call, &mut record, &mut states, now, &HoldTerms::default())?;
/// assert!(reply.is_open());
/// let bytes = record.as_ref().map(HoldRecord::to_bytes).unwrap_or_default();
/// assert_eq!(HoldRecord::from_bytes(&bytes), record);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// The phase. An open hold has expired from its deadline on: see [`HoldRecord::is_open`].
    pub phase: HoldPhase,
    /// The time from which the hold is expired.
    pub deadline: Timestamp,
    /// The time from `reserve` to the first deadline, in microseconds.
    pub ttl: u64,
    /// The time for which the record is kept after the end of the hold, in microseconds.
    pub retain: u64,
    /// The items.
    pub items: Vec<HeldItem>,
}

/// The phase of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldPhase {
    /// The items are being charged, by a store that cannot charge them in one step.
    Opening,
    /// The items are charged.
    Open,
    /// The hold was settled at this time.
    Settled(Timestamp),
}

/// An item of a hold, as it was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldItem {
    /// The limits as they were defined when they were charged.
    pub policy: Arc<Policy>,
    /// The key.
    pub key: OwnedKey,
    /// The units that `reserve` asked for.
    pub asked: u64,
    /// Whether `reserve` allowed lowering them.
    pub clamp: bool,
    /// The units that the item holds. After the settlement, the units that it took.
    pub units: u64,
    /// Whether the settlement charged more than a limit allows.
    pub overdrawn: bool,
    /// The charges of each limit.
    pub parts: Vec<HeldPart>,
}

/// The units that were charged to one limit of an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldPart {
    /// The receipts, the oldest first. Empty after the settlement, and for a concurrency limit.
    pub receipts: Vec<Receipt>,
    /// The fence of the grant, if this is a concurrency limit.
    pub fence: Option<u64>,
}

impl HoldRecord {
    /// Returns whether the hold is open at this time.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.phase == HoldPhase::Open && now < self.deadline
    }

    /// Returns the time from which the record may be forgotten. From then on its id is new.
    #[must_use]
    pub fn forget_at(&self) -> Timestamp {
        let end = match self.phase {
            HoldPhase::Settled(at) => at,
            HoldPhase::Opening | HoldPhase::Open => self.deadline,
        };
        end.plus(self.retain)
    }

    /// Returns the parts, in order.
    #[must_use]
    pub fn parts(&self) -> Vec<HoldPart<'_>> {
        parts_of(self.items.iter().map(|item| (&*item.policy, &item.key)))
    }

    /// Returns whether `reserve` was called with these items.
    #[must_use]
    pub fn is_of(&self, items: &[HoldItem]) -> bool {
        let same = |(held, item): (&HeldItem, &HoldItem)| {
            let identities = |policy: &Policy| -> Vec<String> {
                policy.limits().iter().map(crate::Limit::identity).collect()
            };
            held.asked == item.units
                && held.clamp == item.clamp
                && held.key == item.key
                && (Arc::ptr_eq(&held.policy, &item.policy)
                    || identities(&held.policy) == identities(&item.policy))
        };
        self.items.len() == items.len() && self.items.iter().zip(items).all(same)
    }

    /// Returns the record as bytes. [`from_bytes`](HoldRecord::from_bytes) reads them.
    ///
    /// The first byte is the version, 1. Numbers are written as LEB128 and texts with their length
    /// before them:
    ///
    /// - phase (0 opening, 1 open, 2 settled), deadline, ttl, retain, time of the settlement or 0,
    ///   number of items
    /// - of each item: policy as text, form and bytes of the key, units asked for, units held, and
    ///   flags (1 clamp, 2 overdrawn)
    /// - of each limit of an item: 0, or the fence and 1 more; number of receipts
    /// - of each receipt: units, time, mark
    ///
    /// See the example of [`HoldRecord`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let number = |number: u64, out: &mut Vec<u8>| put(number, |byte| out.push(byte));
        let (phase, settled) = match self.phase {
            HoldPhase::Opening => (0, 0),
            HoldPhase::Open => (1, 0),
            HoldPhase::Settled(at) => (2, at.as_micros()),
        };
        for value in [phase, self.deadline.as_micros(), self.ttl, self.retain, settled] {
            number(value, &mut out);
        }
        number(self.items.len() as u64, &mut out);
        for item in &self.items {
            let key = item.key.as_key_ref();
            text(item.policy.to_string().as_bytes(), &mut out);
            out.push(key.form() as u8);
            text(key.bytes(), &mut out);
            number(item.asked, &mut out);
            number(item.units, &mut out);
            out.push(u8::from(item.clamp) | u8::from(item.overdrawn) << 1);
            for part in &item.parts {
                number(part.fence.map_or(0, |fence| fence.saturating_add(1)), &mut out);
                number(part.receipts.len() as u64, &mut out);
                for receipt in &part.receipts {
                    for value in [receipt.units, receipt.at.as_micros(), receipt.mark] {
                        number(value, &mut out);
                    }
                }
            }
        }
        out
    }

    /// Reads a record that [`to_bytes`](HoldRecord::to_bytes) has written. `None` for any other
    /// bytes, and for those of a later version.
    ///
    /// See the example of [`HoldRecord`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<HoldRecord> {
        let (&VERSION, mut rest) = bytes.split_first()? else { return None };
        let rest = &mut rest;
        let phase = take(rest)?;
        let deadline = Timestamp::from_micros(take(rest)?);
        let (ttl, retain, settled) = (take(rest)?, take(rest)?, take(rest)?);
        let phase = match phase {
            0 => HoldPhase::Opening,
            1 => HoldPhase::Open,
            2 => HoldPhase::Settled(Timestamp::from_micros(settled)),
            _ => return None,
        };
        let items = usize::try_from(take(rest)?).ok().filter(|count| *count <= super::MAX_ITEMS)?;
        let items = (0..items).map(|_| take_item(rest)).collect::<Option<_>>()?;
        rest.is_empty().then_some(HoldRecord { phase, deadline, ttl, retain, items })
    }
}

const VERSION: u8 = 1;

/// An upper bound of the bytes that limits and keys take in a record.
pub(super) fn definition_bytes(items: &[HoldItem]) -> usize {
    // A limit without its name takes less than 100 characters, and each character of a name is
    // written with at most ten.
    let limit = |limit: &crate::Limit| 100 + limit.name().map_or(0, |name| 10 * name.len());
    let item = |item: &HoldItem| {
        item.policy.limits().iter().map(limit).sum::<usize>() + item.key.as_key_ref().bytes().len()
    };
    items.iter().map(item).sum()
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    put(bytes.len() as u64, |byte| out.push(byte));
    out.extend_from_slice(bytes);
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (text, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(text)
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (byte, tail) = rest.split_first()?;
    *rest = tail;
    Some(*byte)
}

fn take_item(rest: &mut &[u8]) -> Option<HeldItem> {
    let policy: Policy = str::from_utf8(take_text(rest)?).ok()?.parse().ok()?;
    let form = Form::from_byte(take_byte(rest)?)?;
    let key = OwnedKey::of_stored(KeyRef::from_parts(form, take_text(rest)?));
    let (asked, units) = (take(rest)?, take(rest)?);
    let flags = take_byte(rest).filter(|flags| *flags < 4)?;
    let parts = (0..policy.limits().len()).map(|_| take_part(rest)).collect::<Option<_>>()?;
    Some(HeldItem {
        policy: Arc::new(policy),
        key,
        asked,
        clamp: flags & 1 != 0,
        units,
        overdrawn: flags & 2 != 0,
        parts,
    })
}

fn take_part(rest: &mut &[u8]) -> Option<HeldPart> {
    let fence = take(rest)?.checked_sub(1);
    let receipts = usize::try_from(take(rest)?).ok().filter(|count| *count <= MAX_RECEIPTS)?;
    let receipt = |rest: &mut &[u8]| {
        let (units, at, mark) = (take(rest)?, take(rest)?, take(rest)?);
        Some(Receipt { units, at: Timestamp::from_micros(at), mark, source: Source::Store })
    };
    let receipts = (0..receipts).map(|_| receipt(rest)).collect::<Option<_>>()?;
    Some(HeldPart { receipts, fence })
}

/// Returns the time in microseconds until the deadline of a new hold.
pub(super) fn ttl_of(items: &[HoldItem], ttl: Option<Duration>) -> u64 {
    let holds = items.iter().flat_map(|item| item.policy.limits()).filter_map(crate::Limit::hold);
    micros_up(ttl.or_else(|| holds.min()).unwrap_or(super::DEFAULT_TTL))
}
