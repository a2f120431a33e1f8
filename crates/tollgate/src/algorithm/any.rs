//! The types and functions for any algorithm, generated from the list of all algorithms.

use std::any::Any;

use super::bytes::StateBytes;
use super::{Act, Aging, Fields, KnownAct as _, Machine, Op, Part, Step};
use crate::limit::{Algorithm, Limit};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Generates the types and functions for any algorithm. `$d` is a dollar sign, which the generated
/// macros need.
macro_rules! algorithms {
    (
        ($d:tt)
        carried { $(
            $(#[$_carried_meta:meta])*
            $carried:ident = $carried_number:literal, $_carried_text:literal,
            $carried_module:ident::$carried_state:ident;
        )+ }
        large { $(
            $(#[$_large_meta:meta])*
            $large:ident = $large_number:literal, $_large_text:literal,
            $large_module:ident::$large_state:ident;
        )+ }
    ) => {
        algorithms! {
            @machines ($d)
            $($carried = $carried_number, $carried_module::$carried_state;)+
            $($large = $large_number, $large_module::$large_state;)+
        }

        /// A machine and the state after the operation. If the state is too large to be copied or
        /// is kept elsewhere, the computed fields.
        #[derive(Clone, Copy, Debug)]
        #[expect(dead_code, reason = "both buckets have the same machine, whose view is TokenBucket")]
        pub(crate) enum View {
            $($carried(
                super::$carried_module::$carried,
                Option<super::$carried_module::$carried_state>,
            ),)+
            Fields(Fields),
        }

        impl View {
            /// Computes all fields. The compiler removes the computation of fields that the caller
            /// does not use.
            #[inline(always)]
            pub(crate) fn fields(&self, now: Timestamp, step: &Step) -> Fields {
                match self {
                    $(View::$carried(machine, state) => Fields::of(machine, state.as_ref(), now, step),)+
                    View::Fields(fields) => *fields,
                }
            }
        }
    };
    (@machines ($d:tt) $($name:ident = $number:literal, $module:ident::$state:ident;)+) => {
        /// The machine of a limit with any algorithm.
        ///
        /// ```
        /// use tollgate::algorithm::{AnyMachine, Op};
        /// use tollgate::{Limit, Timestamp};
        ///
        /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
        /// let (now, mut state) = (Timestamp::from_micros(0), None);
        /// assert!(machine.apply(&mut state, now, Op::Hit(1)).allowed());
        /// assert!(machine.apply(&mut state, now, Op::Hit(1)).allowed());
        /// assert!(!machine.apply(&mut state, now, Op::Hit(1)).allowed());
        /// # Ok::<(), tollgate::LimitError>(())
        /// ```
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "the variants are the algorithms")]
        #[non_exhaustive]
        pub enum AnyMachine {
            $($name(super::$module::$name),)+
        }

        /// The state of a key with any algorithm.
        ///
        /// ```
        /// use tollgate::algorithm::{AnyMachine, Op, AnyState};
        /// use tollgate::{Limit, Timestamp};
        ///
        /// let mut state: Option<AnyState> = None;
        /// AnyMachine::new(&Limit::per_second(2).build()?).apply(&mut state, Timestamp::EPOCH, Op::Charge(1));
        /// assert!(matches!(state, Some(AnyState::Gcra(_))));
        /// # Ok::<(), tollgate::LimitError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the variants are the algorithms")]
        #[non_exhaustive]
        pub enum AnyState {
            $($name(super::$module::$state),)+
        }

        /// Runs `$body` with `$machine` bound to the machine of its concrete type.
        macro_rules! with_machine {
            ($d any:expr, $d machine:ident => $d body:expr) => {
                match $d any {
                    $($crate::algorithm::AnyMachine::$name($d machine) => $d body,)+
                }
            };
        }

        /// Runs `$body` with the machine and its own type of state, and wraps the state again.
        macro_rules! with_state {
            ($d any:expr, $d state:expr, ($d machine:ident, $d inner:ident) => $d body:expr) => {
                match $d any {
                    $(AnyMachine::$name($d machine) => {
                        let mut $d inner = match $d state.take() {
                            Some(AnyState::$name(inner)) => Some(inner),
                            _ => None,
                        };
                        let result = $d body;
                        *$d state = $d inner.map(AnyState::$name);
                        result
                    })+
                }
            };
        }

        /// Runs `$body` with the machine and a reference to its own type of state.
        macro_rules! with_state_ref {
            ($d any:expr, $d state:expr, ($d machine:ident, $d inner:ident) => $d body:expr) => {
                match $d any {
                    $(AnyMachine::$name($d machine) => {
                        let $d inner = match $d state {
                            Some(AnyState::$name(inner)) => Some(inner),
                            _ => None,
                        };
                        $d body
                    })+
                }
            };
        }

        impl AnyMachine {
            /// Creates the machine of this limit.
            ///
            /// ```
            /// # use tollgate::{Limit, algorithm::AnyMachine};
            /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
            /// assert!(matches!(machine, AnyMachine::Gcra(_)));
            /// # Ok::<(), tollgate::LimitError>(())
            /// ```
            #[must_use]
            pub fn new(limit: &Limit) -> AnyMachine {
                match limit.algorithm() {
                    $(Algorithm::$name => {
                        AnyMachine::$name(super::$module::$name::new(limit.rate()))
                    })+
                }
            }

            /// Returns a state of this machine as a state of any algorithm. `None` if it belongs to
            /// another machine.
            pub(crate) fn wrap<S: 'static>(&self, state: S) -> Option<AnyState> {
                let mut state = Some(state);
                let any: &mut dyn Any = &mut state;
                match self {
                    $(AnyMachine::$name(_) => {
                        let state = any.downcast_mut::<Option<super::$module::$state>>()?;
                        state.take().map(AnyState::$name)
                    })+
                }
            }

            /// Returns the state at `at` of a bucket that becomes fresh at `until`. It is for
            /// stores that keep only that time. `None` for other algorithms, and if `until` is not
            /// after `at`.
            ///
            /// ```
            /// # use tollgate::{Limit, Timestamp, algorithm::AnyMachine};
            /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
            /// let until = Timestamp::from_micros(1_000_000);
            /// assert!(machine.drained_at(until, Timestamp::EPOCH).is_some());
            /// assert!(machine.drained_at(until, until).is_none());
            /// # Ok::<(), tollgate::LimitError>(())
            /// ```
            #[must_use]
            pub fn drained_at(&self, until: Timestamp, at: Timestamp) -> Option<AnyState> {
                match self {
                    $(AnyMachine::$name(machine) => {
                        machine.drained_at(until, at).map(AnyState::$name)
                    })+
                }
            }
        }

        impl AnyState {
            /// Returns the state of a concrete type. `None` if the state is of another type.
            pub(crate) fn downcast<S: 'static>(self) -> Option<S> {
                match self {
                    $(AnyState::$name(state) => {
                        (&mut Some(state) as &mut dyn Any).downcast_mut().and_then(Option::take)
                    })+
                }
            }

            pub(super) fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(AnyState::$name(state) => {
                        out.push($number);
                        state.put(out);
                    })+
                }
            }

            pub(super) fn take(tag: u8, rest: &mut &[u8]) -> Option<AnyState> {
                match tag {
                    $($number => Some(AnyState::$name(StateBytes::take(rest)?)),)+
                    _ => None,
                }
            }
        }
    };
}

for_each_algorithm!(algorithms ($));
pub(crate) use with_machine;

impl AnyMachine {
    /// Executes one operation on one state. This defines the answer of every store. `None` is a
    /// fresh state, and a state of another algorithm counts as `None`. The state is written only if
    /// the operation changes it.
    ///
    /// ```
    /// # use tollgate::{Limit, Timestamp, algorithm::{AnyMachine, Op}};
    /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
    /// let mut state = None;
    /// let decision = machine.apply(&mut state, Timestamp::EPOCH, Op::Peek(3));
    /// assert_eq!((decision.allowed(), decision.retry_after(), state), (false, None, None));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn apply(&self, state: &mut Option<AnyState>, now: Timestamp, op: Op) -> Outcome {
        self.act(state, now, Act::Op(op))
    }

    /// Executes an operation, or a part of a hit on several limits or keys: see
    /// [`hit_together`](super::hit_together).
    ///
    /// ```
    /// # use tollgate::{Limit, Timestamp, algorithm::{Act, AnyMachine}};
    /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
    /// let mut state = None;
    /// assert!(machine.act(&mut state, Timestamp::EPOCH, Act::DenyHit(1)).allowed());
    /// assert_eq!(state, None);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn act(&self, state: &mut Option<AnyState>, now: Timestamp, act: Act) -> Outcome {
        with_state!(self, state, (machine, inner) => {
            let step = act.step(machine, &mut inner, now);
            Outcome::new(machine, inner.as_ref(), now, step)
        })
    }

    /// Returns the outcome of a step that was executed elsewhere, computed from the state after the
    /// step. It is for stores that run the algorithm in another language.
    ///
    /// ```
    /// # use tollgate::{Limit, Timestamp, algorithm::{AnyMachine, AnyState, Step, fixed_window}};
    /// let machine = AnyMachine::new(&Limit::new(5, std::time::Duration::from_secs(1)).algorithm(tollgate::Algorithm::FixedWindow).build()?);
    /// let state = AnyState::FixedWindow(fixed_window::FixedWindowState { window: 7, count: 2 });
    /// let step = Step { allowed: true, cost: 1, charged: 1, changed: true };
    /// let decision = machine.decision(Some(&state), Timestamp::from_micros(7_000_000), step);
    /// assert_eq!(decision.remaining(), 3);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn decision(&self, state: Option<&AnyState>, now: Timestamp, step: Step) -> Outcome {
        with_state_ref!(self, state, (machine, inner) => Outcome::new(machine, inner, now, step))
    }

    /// Returns the time from which the state acts as a fresh one, so that a store can forget it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Limit, Timestamp, algorithm::{AnyMachine, Op}};
    /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
    /// let mut state = None;
    /// machine.apply(&mut state, Timestamp::EPOCH, Op::Hit(1));
    /// let fresh_at = machine.fresh_at(state.as_ref());
    /// assert_eq!(fresh_at, Some(Timestamp::EPOCH + Duration::from_millis(500)));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn fresh_at(&self, state: Option<&AnyState>) -> Option<Timestamp> {
        with_state_ref!(self, state, (machine, inner) => inner.map(|inner| machine.fresh_at(inner)))
    }

    /// Returns the largest number of units that can pass at one instant.
    ///
    /// ```
    /// # use tollgate::{Limit, algorithm::AnyMachine};
    /// assert_eq!(AnyMachine::new(&Limit::per_second(2).burst(5).build()?).capacity(), 5);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn capacity(&self) -> u64 {
        with_machine!(self, machine => machine.capacity())
    }

    /// Returns whether this is the machine of a ban.
    ///
    /// ```
    /// # use tollgate::{Limit, algorithm::AnyMachine};
    /// assert!(!AnyMachine::new(&Limit::per_second(2).build()?).is_ban());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn is_ban(&self) -> bool {
        matches!(self, AnyMachine::Ban(_))
    }

    /// Returns this limit's part of a hit on several limits or keys: see
    /// [`hit_together`](super::hit_together).
    ///
    /// ```
    /// # use tollgate::{Policy, algorithm::{AnyMachine, Part}};
    /// let policy: Policy = "5/minute; ban after=3/minute for=1h".parse()?;
    /// let parts = policy.limits().iter().map(|limit| AnyMachine::new(limit).part(2));
    /// assert_eq!(parts.collect::<Vec<_>>(), [Part::new(2), Part::ban(2, 1)]);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn part(&self, cost: u64) -> Part {
        match self {
            AnyMachine::Ban(ban) => Part::ban(cost, ban.watches()),
            _ => Part::new(cost),
        }
    }

    /// Returns the way in which charged units stop counting.
    ///
    /// ```
    /// # use tollgate::{Limit, algorithm::{Aging, AnyMachine}};
    /// assert_eq!(AnyMachine::new(&Limit::per_second(2).build()?).aging(), Aging::Bucket);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn aging(&self) -> Aging {
        with_machine!(self, machine => machine.aging())
    }

    /// Returns the end of the window of a receipt with this mark. `None` for algorithms without
    /// windows.
    ///
    /// ```
    /// # use tollgate::{Limit, Timestamp, algorithm::AnyMachine};
    /// let machine = AnyMachine::new(&"5/second fixed-window".parse::<Limit>()?);
    /// assert_eq!(machine.window_end(2), Some(Timestamp::from_micros(3_000_000)));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn window_end(&self, mark: u64) -> Option<Timestamp> {
        with_machine!(self, machine => machine.window_end(mark))
    }

    /// Returns whether a refund uses the time of a receipt, and not its mark.
    ///
    /// ```
    /// # use tollgate::{Limit, algorithm::AnyMachine};
    /// assert!(AnyMachine::new(&Limit::per_second(2).build()?).finds_by_time());
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn finds_by_time(&self) -> bool {
        with_machine!(self, machine => machine.finds_by_time())
    }
}
