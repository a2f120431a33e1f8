//! The algorithms: pure functions of (limit, state, now), one file each.
//!
//! Each file first describes its algorithm, and then implements the few primitives of the trait
//! `Machine`. The function `step` builds every operation from these primitives, for all algorithms.
//! No function here reads a clock or fails, and only the log of the moving window and the holders of
//! the concurrency limit are allocated.
//!
//! A state is an `Option`. `None` is a fresh state, and a state that has expired at `now` acts as
//! `None` in every primitive.

pub mod ban;
pub mod budget;
pub mod calendar_window;
pub mod concurrent;
pub mod elastic_window;
pub mod fixed_window;
pub mod fixed_window_per_key;
pub mod gcra;
pub mod leaky_bucket;
pub mod level;
pub mod moving_window;
pub mod sliding_window;
pub mod token_bucket;

/// The list of all algorithms. All code that depends on the list is generated from it, by the macro
/// `$generate`. A line is the variant, which is also the name of the machine, the number, the name
/// in text, and the state. The number is the tag of the state's bytes and the number of the
/// algorithm in PostgreSQL. It is never reused for another format, so that old bytes are never
/// misread.
macro_rules! for_each_algorithm {
    ($generate:ident $($argument:tt)*) => {
        $generate! {
            $($argument)*
            // States that are small enough to be copied into an outcome.
            carried {
                /// Counts in windows of the clock, such as each full minute.
                FixedWindow = 1, "fixed-window", fixed_window::FixedWindowState;
                /// Counts in windows that begin with the first hit of a key.
                FixedWindowPerKey = 2, "fixed-window-per-key",
                    fixed_window_per_key::FixedWindowPerKeyState;
                /// Counts until a key has made no hit for a whole period, and then starts again
                /// from zero.
                ElasticWindow = 3, "elastic-window", elastic_window::ElasticWindowState;
                /// Estimates the moving window from two counters.
                SlidingWindow = 5, "sliding-window", sliding_window::SlidingWindowState;
                /// Takes tokens that are refilled steadily, up to the burst.
                TokenBucket = 6, "token-bucket", token_bucket::LevelState;
                /// Raises a level that leaks steadily.
                LeakyBucket = 7, "leaky-bucket", leaky_bucket::LevelState;
                /// Keeps the bucket as a single arrival time (generic cell rate algorithm).
                #[default]
                Gcra = 8, "gcra", gcra::GcraState;
                /// Counts in days, weeks, months, quarters or years of a time zone.
                CalendarWindow = 10, "calendar", calendar_window::CalendarWindowState;
                /// Counts units that never come back by themselves.
                Budget = 11, "budget", budget::BudgetState;
                /// Shuts a key out after repeated denials by the other limits of a policy.
                Ban = 12, "ban", ban::BanState;
            }
            large {
                /// Remembers each hit, and never admits more than the quota in any span of one
                /// period.
                MovingWindow = 4, "moving-window", moving_window::MovingWindowState;
                /// Counts the units that are held at the same time. It counts holds, not hits.
                Concurrent = 9, "concurrent", concurrent::ConcurrentState;
            }
        }
    };
}
pub(crate) use for_each_algorithm;

mod any;
mod bytes;
mod fields;
mod group;
mod remote;
mod step;
mod words;

pub use any::{AnyMachine, AnyState};
pub(crate) use any::{View, with_machine};
pub use fields::Fields;
pub use group::{Part, hit_together};
pub use remote::RemoteStep;
use step::{count_denial, denied_by_others, hit, step};
pub(crate) use words::{Words, words};

use crate::limit::{Description, Rate};
use crate::outcome::{Outcome, Receipt, Source};
use crate::time::Timestamp;

/// The number at which counts saturate: a thousand times the largest quota.
pub const MAX_UNITS: u64 = 1_000 * crate::limit::MAX_QUOTA;

/// An operation on a key. Each store supports all operations.
///
/// ```
/// use tollgate::algorithm::Op;
/// assert_ne!(Op::Hit(1), Op::Peek(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Decide on a cost and charge it if it passes.
    Hit(u64),
    /// Decide on a hit of this cost, and change nothing.
    Peek(u64),
    /// Charge as many units as fit, from zero to this number.
    Take(u64),
    /// Charge this many units without checking.
    Charge(u64),
    /// Give back the units of a receipt.
    Refund(Receipt),
    /// Give back this many units without a receipt, the newest first.
    RefundUnits(u64),
    /// Set the units in use to this number.
    Set(u64),
    /// Forget the key. The outcome is allowed if the state was not fresh.
    Reset,
}

impl Op {
    /// Returns the operation as a ban executes it. A ban counts denials and not units, so it has
    /// neither units to charge nor units to give back. Stores that execute a ban themselves send
    /// this operation.
    ///
    /// ```
    /// use tollgate::algorithm::Op;
    /// assert_eq!(Op::Hit(5).without_units(), Op::Hit(0));
    /// assert_eq!(Op::Set(5).without_units(), Op::RefundUnits(0));
    /// ```
    #[must_use]
    pub fn without_units(self) -> Op {
        match self {
            Op::Hit(_) | Op::Take(_) => Op::Hit(0),
            Op::Peek(_) => Op::Peek(0),
            Op::Charge(_) | Op::Refund(_) | Op::RefundUnits(_) | Op::Set(_) => Op::RefundUnits(0),
            Op::Reset => Op::Reset,
        }
    }
}

/// A step on one state: an operation, or a part of a hit on several limits or keys.
///
/// See [`hit_together`] and [`AnyMachine::act`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An operation of a caller.
    Op(Op),
    /// A hit that changes nothing if it is denied, even if the limit charges denied hits.
    TryHit(u64),
    /// A hit that another part of the group denies. It charges only what the limit charges for
    /// denied hits. The outcome is allowed if this part alone would allow the hit. A ban counts
    /// the denial, and its outcome is a denial if the key is banned now.
    DenyHit(u64),
}

/// An [`Act`] that may be known at compile time.
pub(crate) trait KnownAct: Copy {
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step;
    fn act(self) -> Act;

    /// Returns whether the state after this step certainly fits a word, because it is within the
    /// limit.
    fn fits_a_word(step: Step) -> bool;
}

/// A hit that is known at compile time, for the fast path of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit(pub(crate) u64);

impl KnownAct for Hit {
    #[inline(always)]
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step {
        hit(machine, state, now, if M::COUNTS_DENIALS { 0 } else { self.0 })
    }

    fn act(self) -> Act {
        Act::Op(Op::Hit(self.0))
    }

    #[inline(always)]
    fn fits_a_word(step: Step) -> bool {
        step.allowed
    }
}

impl KnownAct for Act {
    fn step<M: Machine>(self, machine: &M, state: &mut Option<M::State>, now: Timestamp) -> Step {
        if M::COUNTS_DENIALS {
            return match self {
                Act::Op(op) => step(machine, state, now, op.without_units()),
                Act::TryHit(_) => hit(machine, state, now, 0),
                Act::DenyHit(_) => count_denial(machine, state, now),
            };
        }
        match self {
            Act::Op(op) => step(machine, state, now, op),
            Act::TryHit(cost) if machine.fits(state.as_ref(), now, cost) => {
                hit(machine, state, now, cost)
            }
            Act::TryHit(cost) => step(machine, state, now, Op::Peek(cost)),
            Act::DenyHit(cost) => denied_by_others(machine, state, now, cost),
        }
    }

    fn act(self) -> Act {
        self
    }

    fn fits_a_word(_: Step) -> bool {
        false
    }
}

/// The result of one operation: whether it was allowed, how many units it charged, and whether the
/// state must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whether the operation was allowed.
    pub allowed: bool,
    /// The cost of the operation, to which `retry_after` refers.
    pub cost: u64,
    /// The units added to the state.
    pub charged: u64,
    /// Whether the state has changed.
    pub changed: bool,
}

/// The pure functions of one algorithm on its own type of state. `now` may be earlier than times in
/// the state. Each file describes how the state guards against that.
pub(crate) trait Machine: Copy + std::fmt::Debug + 'static {
    /// The data kept for a key between hits.
    type State: Clone + std::fmt::Debug + PartialEq + 'static;

    /// True if limits with this algorithm count a quota per period of any length.
    const IS_PERIODIC: bool = true;

    /// True if limits with this algorithm may have a burst of their own.
    const HAS_BURST: bool = false;

    /// True if limits with this algorithm may count denied hits.
    const CAN_CHARGE_DENIED: bool = false;

    /// True if the machine counts denials of the other limits of its policy, and no units. Then
    /// operations charge it nothing, and [`Act::DenyHit`] counts a denial.
    const COUNTS_DENIALS: bool = false;

    /// Describes a limit in words for people.
    fn describe(rate: Rate) -> Description;

    /// Returns the largest number of units that a fresh key can take at one instant.
    fn capacity(&self) -> u64;

    /// Returns whether denied hits are charged too.
    fn charges_denied(&self) -> bool {
        false
    }

    /// Returns whether a hit of this cost passes.
    fn fits(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> bool;

    /// Returns the largest cost that would pass.
    fn room(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Returns the units in use, rounded up.
    fn used(&self, state: Option<&Self::State>, now: Timestamp) -> u64;

    /// Returns the time at which a hit of `cost` would pass if there is no other hit. `cost` does
    /// not fit now, and is at most the capacity.
    fn retry_at(&self, state: Option<&Self::State>, now: Timestamp, cost: u64) -> Timestamp;

    /// Returns the time from which the state acts as a fresh one.
    fn fresh_at(&self, state: &Self::State) -> Timestamp;

    /// Returns the state with `units` (at least one) more in use, whether they fit or not.
    fn charge(&self, state: Option<Self::State>, now: Timestamp, units: u64) -> Self::State;

    /// Charges `cost` (at least one) if it fits, and returns whether it did. Machines may implement
    /// it faster than [`fits`](Machine::fits) followed by [`charge`](Machine::charge).
    #[inline(always)]
    fn admit(&self, state: &mut Option<Self::State>, now: Timestamp, cost: u64) -> bool {
        let fits = self.fits(state.as_ref(), now, cost);
        if fits {
            *state = Some(self.charge(state.take(), now, cost));
        }
        fits
    }

    /// Returns the state after an attempt that charged nothing. `None` if the attempt does not
    /// change the state.
    fn attempt(&self, state: Option<&Self::State>, now: Timestamp) -> Option<Self::State> {
        let _ = (state, now);
        None
    }

    /// Returns the state after another limit of the policy denied a hit. `None` for machines that do
    /// not count denials, and if the denial does not change the state.
    fn after_denial(&self, state: Option<&Self::State>, now: Timestamp) -> Option<Self::State> {
        let _ = (state, now);
        None
    }

    /// Returns the mark of a receipt: the number of the window or entry that was charged.
    fn mark(&self, state: &Self::State) -> u64;

    /// Returns the state after the units of a receipt were given back. `None` if none of these
    /// units is still counted.
    fn refund(
        &self,
        state: &Self::State,
        now: Timestamp,
        receipt: &Receipt,
    ) -> Option<Option<Self::State>>;

    /// Returns the state after `units` (at least one) were given back without a receipt, the newest
    /// first, so that the units in use fall by that number. `None` if no units are counted.
    ///
    /// The default implementation is correct for states with a single count. Other machines take
    /// the units from the newest count first.
    fn refund_units(
        &self,
        state: &Self::State,
        now: Timestamp,
        units: u64,
    ) -> Option<Option<Self::State>> {
        let mark = self.mark(state);
        self.refund(state, now, &Receipt { units, at: now, mark, source: Source::Store })
    }

    /// Returns the state with exactly `units` in use from `now` on.
    fn set(&self, state: Option<&Self::State>, now: Timestamp, units: u64) -> Option<Self::State>;

    /// Returns the state after a key was forgotten. `None` if nothing of it must be kept.
    fn reset(&self, state: Option<Self::State>, now: Timestamp) -> Option<Self::State> {
        let _ = (state, now);
        None
    }

    /// Returns the view from which an outcome computes its fields when they are read.
    fn view(&self, state: Option<&Self::State>, now: Timestamp, step: &Step) -> View;

    /// Returns the units in use when the state was last written. At an earlier time than that, a
    /// state acts as at the time when it was written. GCRA does not remember that time and returns
    /// 0.
    fn written(&self, state: &Self::State) -> u64 {
        self.used(Some(state), Timestamp::EPOCH)
    }

    /// Returns the way in which charged units stop counting. Stores need it if they draw units in
    /// advance, or if nodes count separately and add their counts.
    fn aging(&self) -> Aging;

    /// Returns the end of the window of a receipt with this mark. `None` for machines without
    /// windows.
    fn window_end(&self, mark: u64) -> Option<Timestamp> {
        let _ = mark;
        None
    }

    /// Returns whether [`refund`](Machine::refund) uses the time of a receipt, and not its mark.
    fn finds_by_time(&self) -> bool {
        false
    }

    /// Returns the state at `at` of a bucket that becomes fresh at `until`. `None` for other
    /// machines, and if `until` is not after `at`.
    fn drained_at(&self, until: Timestamp, at: Timestamp) -> Option<Self::State> {
        let _ = (until, at);
        None
    }

    /// Returns the state of the three numbers that a store sends if it executes the algorithm
    /// itself: see [`RemoteStep::state`].
    fn remote_state(&self, numbers: [u64; 3]) -> Option<Self::State>;

    /// Returns the outcome of a step that such a store executed.
    fn remote_outcome(&self, numbers: Option<[u64; 3]>, now: Timestamp, step: Step) -> Outcome {
        let state = numbers.and_then(|numbers| self.remote_state(numbers));
        Outcome::new(self, state.as_ref(), now, step)
    }

    /// Returns whether the state acts as a fresh one.
    fn is_fresh(&self, state: Option<&Self::State>, now: Timestamp) -> bool {
        state.is_none_or(|state| self.fresh_at(state) <= now)
    }
}

/// The way in which charged units stop counting.
///
/// See [`AnyMachine::aging`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aging {
    /// All units of a window stop counting at its end. The windows are those of the clock.
    ClockWindow,
    /// All units of a window stop counting at its end. The windows are those of a calendar.
    CalendarWindow,
    /// All units of a window stop counting at its end. A window begins with a hit.
    KeyWindow,
    /// The units of a window stop counting gradually during the next window.
    FadingWindow,
    /// Each unit stops counting one period after it was charged.
    Log,
    /// Units stop counting steadily, at the rate of the limit.
    Bucket,
    /// All units stop counting one period after the last attempt, allowed or denied.
    Attempts,
    /// Units count until their hold ends.
    Holds,
    /// Units count until they are given back.
    Never,
    /// There are no units: a ban counts denials of other limits.
    Denials,
}
