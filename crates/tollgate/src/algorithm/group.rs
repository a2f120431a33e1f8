//! Hits on several limits or keys, all or nothing.

use std::borrow::Borrow;

use super::{Act, Op};
use crate::outcome::Outcome;

/// Hits several parts, of which all are charged or none. All stores that decide in this process use
/// this function.
///
/// `costs` contains the cost of each part, and `act` executes an act on the part with a given
/// index. First all parts are peeked at, then all are charged. If one part is denied, each part
/// gets a denied hit, because some limits charge denied hits. The outcomes have the order of the
/// parts. If the hit as a whole is denied, at least one outcome is a denial.
///
/// If the caller holds the locks of all parts, the hit is one atomic step. Without locks another
/// caller may charge a part between the peek and the charge. Then the parts that were already
/// charged are refunded. Other callers may be denied needlessly in the meantime, but too much is
/// never admitted.
///
/// # Errors
/// Returns the first error of `act`. Some parts may have been charged.
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
    // The part that denied the hit may now have room again, because another caller refunded units
    // meanwhile. Then its earlier denial is returned.
    if outcomes.iter().all(is_allowed) {
        outcomes[part] = earlier;
    }
    Ok(outcomes)
}
