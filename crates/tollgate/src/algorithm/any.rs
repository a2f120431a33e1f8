//! The list of algorithms: the one place that knows them all.

use super::elastic_window::ElasticWindow;
use super::fixed_window::FixedWindow;
use super::fixed_window_per_key::FixedWindowPerKey;
use super::gcra::Gcra;
use super::leaky_bucket::LeakyBucket;
use super::moving_window::MovingWindow;
use super::sliding_window::SlidingWindow;
use super::token_bucket::TokenBucket;
use super::{
    Act, KnownAct as _, Machine, Op, Step, elastic_window, fixed_window, fixed_window_per_key,
    gcra, level, moving_window, sliding_window,
};
use crate::limit::{Algorithm, Limit};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// The machine of a limit, whatever its algorithm.
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
#[allow(missing_docs)] // the variants are the algorithms
#[non_exhaustive]
pub enum AnyMachine {
    FixedWindow(FixedWindow),
    FixedWindowPerKey(FixedWindowPerKey),
    ElasticWindow(ElasticWindow),
    MovingWindow(MovingWindow),
    SlidingWindow(SlidingWindow),
    TokenBucket(TokenBucket),
    LeakyBucket(LeakyBucket),
    Gcra(Gcra),
}

/// The state of a key, whatever the algorithm: for stores that keep it as bytes.
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
#[allow(missing_docs)] // the variants are the algorithms
#[non_exhaustive]
pub enum AnyState {
    FixedWindow(fixed_window::FixedWindowState),
    FixedWindowPerKey(fixed_window_per_key::FixedWindowPerKeyState),
    ElasticWindow(elastic_window::ElasticWindowState),
    MovingWindow(moving_window::MovingWindowState),
    SlidingWindow(sliding_window::SlidingWindowState),
    TokenBucket(level::LevelState),
    LeakyBucket(level::LevelState),
    Gcra(gcra::GcraState),
}

/// Runs `$body` with `$machine` bound to the machine inside, whatever its type.
macro_rules! with_machine {
    ($any:expr, $machine:ident => $body:expr) => {
        match $any {
            $crate::algorithm::AnyMachine::FixedWindow($machine) => $body,
            $crate::algorithm::AnyMachine::FixedWindowPerKey($machine) => $body,
            $crate::algorithm::AnyMachine::ElasticWindow($machine) => $body,
            $crate::algorithm::AnyMachine::MovingWindow($machine) => $body,
            $crate::algorithm::AnyMachine::SlidingWindow($machine) => $body,
            $crate::algorithm::AnyMachine::TokenBucket($machine)
            | $crate::algorithm::AnyMachine::LeakyBucket($machine) => $body,
            $crate::algorithm::AnyMachine::Gcra($machine) => $body,
        }
    };
}
pub(crate) use with_machine;

/// Runs `$body` with the machine and its own kind of state, and wraps the state again.
macro_rules! with_state {
    ($any:expr, $state:expr, ($machine:ident, $inner:ident) => $body:expr, [$($name:ident),+]) => {
        match $any {
            $(AnyMachine::$name($machine) => {
                let mut $inner = match $state.take() {
                    Some(AnyState::$name(inner)) => Some(inner),
                    _ => None,
                };
                let result = $body;
                *$state = $inner.map(AnyState::$name);
                result
            })+
        }
    };
}

impl AnyMachine {
    /// The machine of this limit.
    ///
    /// ```
    /// # use tollgate::{Limit, algorithm::AnyMachine};
    /// let machine = AnyMachine::new(&Limit::per_second(2).build()?);
    /// assert!(matches!(machine, AnyMachine::Gcra(_)));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn new(limit: &Limit) -> AnyMachine {
        let rate = limit.rate();
        match limit.algorithm() {
            Algorithm::FixedWindow => AnyMachine::FixedWindow(FixedWindow::new(rate)),
            Algorithm::FixedWindowPerKey => {
                AnyMachine::FixedWindowPerKey(FixedWindowPerKey::new(rate))
            }
            Algorithm::ElasticWindow => AnyMachine::ElasticWindow(ElasticWindow::new(rate)),
            Algorithm::MovingWindow => AnyMachine::MovingWindow(MovingWindow::new(rate)),
            Algorithm::SlidingWindow => AnyMachine::SlidingWindow(SlidingWindow::new(rate)),
            Algorithm::TokenBucket => AnyMachine::TokenBucket(TokenBucket::new(rate)),
            Algorithm::LeakyBucket => AnyMachine::LeakyBucket(LeakyBucket::new(rate)),
            Algorithm::Gcra => AnyMachine::Gcra(Gcra::new(rate)),
        }
    }

    /// One operation on one state: the definition of every call on every store. `None` is fresh; a
    /// state of another algorithm counts as none. The state is left untouched unless the operation
    /// changes it.
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

    /// An operation, or a part of a hit on several limits or keys: see
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
        }, [
            FixedWindow, FixedWindowPerKey, ElasticWindow, MovingWindow, SlidingWindow, TokenBucket,
            LeakyBucket, Gcra
        ])
    }

    /// The decision of a step that was done elsewhere, from the state that it left: for stores that
    /// run the algorithm in another language.
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
        macro_rules! of {
            ($($name:ident),+) => {
                match (self, state) {
                    $((AnyMachine::$name(machine), Some(AnyState::$name(state))) => {
                        Outcome::new(machine, Some(state), now, step)
                    })+
                    $((AnyMachine::$name(machine), _) => Outcome::new(machine, None, now, step),)+
                }
            };
        }
        of!(
            FixedWindow,
            FixedWindowPerKey,
            ElasticWindow,
            MovingWindow,
            SlidingWindow,
            TokenBucket,
            LeakyBucket,
            Gcra
        )
    }

    /// From when on the state acts as a fresh one: what a store needs to know to forget it.
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
        macro_rules! ask {
            ($($name:ident),+) => {
                match (self, state?) {
                    $((AnyMachine::$name(machine), AnyState::$name(inner)) => Some(machine.fresh_at(inner)),)+
                    _ => None,
                }
            };
        }
        ask!(
            FixedWindow,
            FixedWindowPerKey,
            ElasticWindow,
            MovingWindow,
            SlidingWindow,
            TokenBucket,
            LeakyBucket,
            Gcra
        )
    }

    /// The most units that can pass at once.
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
}
