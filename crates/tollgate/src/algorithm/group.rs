//! Hits on several limits or keys, all or nothing.

use std::borrow::Borrow;

use super::{Act, Op};
use crate::outcome::Outcome;

/// One part of a hit on several limits or keys: the cost, and for a ban the number of parts before
/// it whose denials it counts.
///
/// See [`AnyMachine::part`](super::AnyMachine::part).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    cost: u64,
    watches: usize,
}

impl Part {
    /// Returns the part of a limit that counts units.
    ///
    /// ```
    /// use tollgate::algorithm::Part;
    /// assert!(!Part::new(1).is_ban());
    /// ```
    #[must_use]
    pub const fn new(cost: u64) -> Part {
        Part { cost, watches: 0 }
    }

    /// Returns the part of a ban that counts the denials of this many parts before it.
    ///
    /// ```
    /// use tollgate::algorithm::Part;
    /// assert!(Part::ban(1, 2).is_ban());
    /// ```
    #[must_use]
    pub const fn ban(cost: u64, watches: usize) -> Part {
        Part { cost, watches }
    }

    /// Returns whether this is the part of a ban.
    ///
    /// See the examples of [`Part::new`] and [`Part::ban`].
    #[must_use]
    pub const fn is_ban(&self) -> bool {
        self.watches > 0
    }
}

/// Hits several parts, of which all are charged or none. All stores that decide in this process use
/// this function.
///
/// `parts` contains the parts, and `act` executes an act on the part with a given index. First all
/// parts are peeked at, then all are charged. If one part is denied, each part gets a denied hit,
/// because some limits charge denied hits. The outcomes have the order of the parts. If the hit as a
/// whole is denied, at least one outcome is a denial.
///
/// A ban follows the parts that it watches. Bans are asked first: if one of them denies, nothing is
/// charged and nothing but that ban is attempted. A ban counts a denial if one of the parts that it
/// watches denies the hit.
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
///     hit_together(costs.into_iter().map(|cost| machine.part(cost)), |part, act| {
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
    parts: impl ExactSizeIterator<Item = Part> + Clone,
    mut act: impl FnMut(usize, Act) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let each = || parts.clone().enumerate();
    if is_banned(each().filter(|(_, part)| part.is_ban()), &mut act)? {
        let answer = |(index, part): (usize, Part)| match part.is_ban() {
            true => act(index, Act::TryHit(part.cost)),
            false => act(index, Act::Op(Op::Peek(part.cost))),
        };
        return parts.enumerate().map(answer).collect();
    }
    let mut outcomes = Vec::with_capacity(parts.len());
    let mut denied = None;
    for (index, part) in each().filter(|(_, part)| !part.is_ban()) {
        let peeked = act(index, Act::Op(Op::Peek(part.cost)))?;
        if !is_allowed(&peeked) {
            denied = Some((index, peeked));
            break;
        }
    }
    if denied.is_none() {
        for (index, part) in each() {
            let tried = act(index, Act::TryHit(part.cost))?;
            if !is_allowed(&tried) {
                denied = Some((index, tried));
                break;
            }
            outcomes.push(tried);
        }
    }
    let Some((denying, earlier)) = denied else { return Ok(outcomes) };
    for (index, charged) in outcomes.drain(..).enumerate().rev() {
        act(index, Act::Op(Op::Refund(charged.borrow().receipt())))?;
    }
    for (index, part) in parts.enumerate() {
        let watched = &outcomes[index.saturating_sub(part.watches)..];
        let step = if part.is_ban() && watched.iter().all(is_allowed) {
            Act::Op(Op::Peek(part.cost))
        } else {
            Act::DenyHit(part.cost)
        };
        outcomes.push(act(index, step)?);
    }
    // The part that denied the hit may now have room again, because another caller refunded units
    // meanwhile. Then its earlier denial is returned.
    if outcomes.iter().all(is_allowed) {
        outcomes[denying] = earlier;
    }
    Ok(outcomes)
}

fn is_allowed<T: Borrow<Outcome>>(outcome: &T) -> bool {
    outcome.borrow().allowed()
}

/// Returns whether one of these bans denies.
fn is_banned<T: Borrow<Outcome>, E>(
    bans: impl Iterator<Item = (usize, Part)>,
    act: &mut impl FnMut(usize, Act) -> Result<T, E>,
) -> Result<bool, E> {
    for (index, part) in bans {
        if !is_allowed(&act(index, Act::Op(Op::Peek(part.cost)))?) {
            return Ok(true);
        }
    }
    Ok(false)
}
