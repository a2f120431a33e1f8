//! Refunds by receipts that come from other processes: all receipts are checked before any unit is
//! given back.

use std::borrow::Borrow;

use crate::algorithm::Op;
use crate::decision::Decision;
use crate::error::Error;
use crate::key::Key;
use crate::outcome::{Outcome, Receipt, Source};
use crate::shared::Place;
use crate::wire_receipt::WireReceipt;

/// The most receipts of one refund, so that no caller occupies a store for long.
const MOST: usize = 256;

/// The answer to a refund by [`WireReceipt`]s.
///
/// ```
/// use tollgate::Memory;
///
/// let limiter = Memory::new().limiter("10/minute; 100/day")?;
/// let decision = limiter.hit_n("alice", 3);
/// let texts: Vec<_> = limiter.wire_receipts("alice", &decision).map(|r| r.to_string()).collect();
///
/// let receipts: Vec<_> = texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
/// let refund = limiter.refund_wire_receipts("alice", &receipts, Some(2))?;
/// assert_eq!(refund.decision.used(), 1);
/// assert!(refund.ignored.is_empty());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WireRefund {
    /// The state of all limits after the refund.
    pub decision: Decision,
    /// The receipts for which nothing was given back, because only the process that issued them
    /// can do that: see [`WireReceipt::is_honoured_here`].
    pub ignored: Vec<WireReceipt>,
}

/// Receipts that may be refunded.
pub(crate) struct CheckedReceipts {
    /// The index of the limit of each receipt, and the receipt.
    pub(crate) honoured: Vec<(usize, Receipt)>,
    pub(crate) ignored: Vec<WireReceipt>,
}

impl CheckedReceipts {
    /// Checks all receipts. Each must be for this key of one of the places, and must have charged
    /// these units.
    pub(crate) fn new(
        places: &[Place],
        key: &impl Key,
        receipts: &[WireReceipt],
        units: Option<u64>,
    ) -> Result<CheckedReceipts, Error> {
        if receipts.is_empty() || receipts.len() > MOST {
            return Err(Error::request(format!(
                "{} receipts: a refund needs at least 1 and takes at most {MOST}",
                receipts.len()
            )));
        }
        let mut checked = CheckedReceipts { honoured: Vec::new(), ignored: Vec::new() };
        for wire in receipts {
            let limit = places.iter().position(|place| wire.is_for(place, key));
            let limit = limit.ok_or_else(|| wire.wrong_place())?;
            let receipt = wire.refund_of(units)?;
            if wire.is_honoured_here() {
                checked.honoured.push((limit, receipt));
            } else {
                checked.ignored.push(*wire);
            }
        }
        Ok(checked)
    }
}

/// Returns the refund of each receipt, with the index of its limit, and an operation that only
/// reads the state of each limit without a receipt.
pub(crate) fn refunds(limits: usize, receipts: &[(usize, Receipt)]) -> Vec<(usize, Op)> {
    let has_receipt = |limit: &usize| receipts.iter().any(|(index, _)| index == limit);
    let others = (0..limits).filter(|limit| !has_receipt(limit));
    let reads = others.map(|limit| (limit, Op::RefundUnits(0)));
    reads.chain(receipts.iter().map(|(limit, receipt)| (*limit, Op::Refund(*receipt)))).collect()
}

/// Returns the last outcome of each limit.
pub(crate) fn last_of_each(ops: &[(usize, Op)], outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut all: Vec<_> = ops.iter().map(|(limit, _)| *limit).zip(outcomes).collect();
    // The sort is stable, so the last outcome of a limit stays the last one.
    all.sort_by_key(|(limit, _)| *limit);
    let last = |same: &[(usize, Outcome)]| same.last().map(|(_, outcome)| *outcome);
    all.chunk_by(|a, b| a.0 == b.0).filter_map(last).collect()
}

/// Returns the receipts of the units that a decision charged to a counter.
pub(crate) fn wire_receipts<K: Key>(
    places: impl Iterator<Item: Borrow<Place>>,
    key: K,
    decision: &Decision,
) -> impl Iterator<Item = WireReceipt> {
    let charged = places.zip(decision.outcomes()).filter(|(_, outcome)| is_counted(outcome));
    charged.map(move |(place, outcome)| WireReceipt::new(outcome.receipt(), place.borrow(), &key))
}

/// Returns whether units were charged to a counter.
fn is_counted(outcome: &Outcome) -> bool {
    outcome.charged() > 0 && !matches!(outcome.source(), Source::FailOpen | Source::FailClosed)
}
