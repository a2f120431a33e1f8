//! The answer to a call on a hold.

use std::fmt;

use crate::outcome::Outcome;
use crate::time::Timestamp;

/// The answer to a [`HoldCall`](super::HoldCall), from the one atomic step that decided.
#[derive(Clone, Debug)]
pub struct HoldReply {
    /// The state of the hold after the call, or the reason why the call changed nothing.
    pub status: HoldStatus,
    /// Whether an earlier call has done the same already, and this one changed nothing.
    pub repeated: bool,
    /// The time of the decision.
    pub now: Timestamp,
    /// The deadline, if the hold is known.
    pub deadline: Option<Timestamp>,
    /// The items of the hold, or of the denied reservation. Empty if the hold is unknown.
    pub items: Vec<HoldItemReply>,
    /// The outcome of each limit, in the order of the items and their limits. Empty if the call
    /// needs no decision, as a look-up.
    pub outcomes: Vec<Outcome>,
}

/// The figures of one item of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldItemReply {
    /// The units that the item holds. After a settlement, the units that it took.
    pub units: u64,
    /// The fence of the grant if a limit of the item is a concurrency limit. If it has several, the
    /// highest one.
    pub fence: Option<u64>,
    /// Whether the settlement charged more than a limit allows.
    pub overdrawn: bool,
}

/// The state of a hold after a call, or the reason why the call changed nothing.
///
/// ```
/// use tollgate::hold::HoldStatus;
/// assert_eq!(HoldStatus::Expired.to_string(), "expired");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldStatus {
    /// The hold is open: the call was granted.
    Open,
    /// A limit denied the units. A denied reservation leaves no record, and a denied growth leaves
    /// the hold as it was.
    Denied,
    /// The hold is settled.
    Settled,
    /// The deadline has passed: the slots are free, and the other charges stand. It can still be
    /// settled.
    Expired,
    /// There is no hold of this name in this namespace, or its record was forgotten.
    Unknown,
    /// A slot of the hold is gone, for instance because the key was reset. Nothing has changed.
    SlotGone,
    /// The call contradicts what is recorded. Nothing has changed.
    Conflict(HoldConflict),
}

/// The contradiction between a call and the record of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldConflict {
    /// A hold with this id is open, and has other items.
    OtherItems,
    /// The hold was settled with other figures.
    OtherFigures,
    /// Another caller is opening a hold with this id.
    Opening,
}

impl HoldStatus {
    /// Returns the status as one word, for protocols.
    ///
    /// ```
    /// use tollgate::hold::{HoldConflict, HoldStatus};
    /// assert_eq!(HoldStatus::Conflict(HoldConflict::OtherItems).as_str(), "conflict");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HoldStatus::Open => "open",
            HoldStatus::Denied => "denied",
            HoldStatus::Settled => "settled",
            HoldStatus::Expired => "expired",
            HoldStatus::Unknown => "unknown",
            HoldStatus::SlotGone => "slot-gone",
            HoldStatus::Conflict(_) => "conflict",
        }
    }
}

impl fmt::Display for HoldStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            HoldStatus::Conflict(HoldConflict::OtherItems) => {
                f.write_str(": a hold with this id is open, and has other items")
            }
            HoldStatus::Conflict(HoldConflict::OtherFigures) => {
                f.write_str(": the hold was settled with other figures")
            }
            HoldStatus::Conflict(HoldConflict::Opening) => {
                f.write_str(": another caller is opening a hold with this id")
            }
            _ => Ok(()),
        }
    }
}

impl HoldReply {
    /// Returns whether the call left the hold open, so that its caller may work.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status == HoldStatus::Open
    }

    /// Returns the outcome to show to people: of those that deny, the one with the longest wait,
    /// else the one with the least left. `None` if there is no outcome.
    #[must_use]
    pub fn headline(&self) -> Option<&Outcome> {
        // A wait that is not known is longer than all others.
        let wait = |outcome: &&Outcome| (outcome.retry_after().is_none(), outcome.retry_after());
        let denied = self.outcomes.iter().filter(|outcome| !outcome.allowed());
        // Of several maxima `max_by_key` returns the last one, and ties go to the first.
        let longest = denied.rev().max_by_key(wait);
        longest.or_else(|| self.outcomes.iter().min_by_key(|outcome| outcome.remaining()))
    }
}
