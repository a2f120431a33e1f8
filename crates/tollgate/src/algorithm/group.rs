//! Hits on several limits or keys, all or nothing.

use std::borrow::Borrow;

use super::{Act, Op};
use crate::outcome::Outcome;

/// Hits several parts: all are charged, or none is. This is the only definition of that for stores
/// that decide in this process.
///
/// `costs` has the cost of each part, and `act` acts on the part of an index. First all parts are
/// peeked at, then all are charged. When one is denied, each part gets its denied hit, so that
/// limits that charge denied hits do so. The outcomes are in the order of the parts, and all are
/// allowed only if all were charged.
///
/// A caller that holds the locks of all parts gets one atomic step. Without locks another caller
/// may come between the peek and the charge: then the parts that were charged are refunded, which
/// may deny others for a moment, and never admits too much.
///
/// # Errors
/// The first error of `act`. Some parts may have been charged.
///
/// ```
/// use std::convert::Infallible;
/// use tollgate::algorithm::{AnyMachine, hit_together};
/// use tollgate::{Limit, Outcome, Timestamp};
///
/// let machine = AnyMachine::new(&"5/minute".parse::<Limit>()?);
/// let mut states = [None, None];
/// let mut hit = |costs: [u64; 2]| {
///     hit_together(costs.into_iter(), |part, act| {
///         Ok::<Outcome, Infallible>(machine.act(&mut states[part], Timestamp::EPOCH, act))
///     })
/// };
/// let Ok(first) = hit([1, 5]);
/// assert!(first.iter().all(Outcome::allowed));
/// let Ok(second) = hit([1, 1]);
/// assert_eq!(second.iter().map(Outcome::allowed).collect::<Vec<_>>(), [true, false]);
/// assert_eq!(second[0].used(), 1, "not charged, because the second part is denied");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
pub fn hit_together<T: Borrow<Outcome>, E>(
    costs: impl ExactSizeIterator<Item = u64> + Clone,
    mut act: impl FnMut(usize, Act) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let parts = || costs.clone().enumerate();
    let is_allowed = |outcome: &T| outcome.borrow().allowed();
    let mut outcomes = Vec::with_capacity(costs.len());
    let mut denied = None;
    for (part, cost) in parts() {
        let peeked = act(part, Act::Op(Op::Peek(cost)))?;
        if !is_allowed(&peeked) {
            denied = Some((part, peeked));
            break;
        }
    }
    if denied.is_none() {
        for (part, cost) in parts() {
            let tried = act(part, Act::TryHit(cost))?;
            if !is_allowed(&tried) {
                denied = Some((part, tried));
                break;
            }
            outcomes.push(tried);
        }
    }
    let Some((part, earlier)) = denied else { return Ok(outcomes) };
    for (part, charged) in outcomes.drain(..).enumerate().rev() {
        act(part, Act::Op(Op::Refund(charged.borrow().receipt())))?;
    }
    for (part, cost) in costs.enumerate() {
        outcomes.push(act(part, Act::DenyHit(cost))?);
    }
    // The part that denied may have room again, because another caller got a refund meanwhile.
    if outcomes.iter().all(is_allowed) {
        outcomes[part] = earlier;
    }
    Ok(outcomes)
}
