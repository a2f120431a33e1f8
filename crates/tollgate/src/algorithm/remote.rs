//! Decisions about operations that a store executed itself, in a script or in a function of a
//! database. The store returns numbers, from which the decision is computed here.

use super::{AnyMachine, Machine as _, Op, Step, with_machine};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// The result of one operation in a store that executes the algorithm itself.
///
/// See [`AnyMachine::remote_decision`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteStep {
    /// Whether the operation was allowed.
    pub allowed: bool,
    /// The units charged.
    pub charged: u64,
    /// The state after the operation as three numbers, if there is a state. Unused numbers are 0.
    /// Times are in microseconds since 1970.
    ///
    /// | algorithm | numbers |
    /// | --- | --- |
    /// | fixed window | number of the window, count |
    /// | fixed window per key, elastic window | start or expiry, count |
    /// | calendar window | start, end, count |
    /// | budget | count |
    /// | sliding window | start, count of the window before, count |
    /// | token bucket, leaky bucket | time, units in use, rest in parts of 1 / period of a unit |
    /// | GCRA | arrival time, rest in parts of 1 / quota of a microsecond |
    /// | ban | start of the window of denials, end of the ban, level * 2^40 + denials |
    /// | moving window, whose log is too long to be sent | units in use, newest entry, when the denied cost passes, or one unit if nothing is left; 0 if unknown |
    pub state: Option<[u64; 3]>,
}

impl AnyMachine {
    /// Returns the decision about an operation that was executed elsewhere.
    ///
    /// ```
    /// use tollgate::algorithm::{AnyMachine, Op, RemoteStep};
    /// use tollgate::{Limit, Timestamp};
    ///
    /// let machine = AnyMachine::new(&"5/minute fixed-window-per-key".parse::<Limit>()?);
    /// let remote = RemoteStep { allowed: true, charged: 1, state: Some([1_000_000, 3, 0]) };
    /// let decision = machine.remote_decision(Op::Hit(1), Timestamp::from_micros(2_000_000), remote);
    /// assert_eq!((decision.remaining(), decision.reset_after().as_secs()), (2, 59));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn remote_decision(&self, op: Op, now: Timestamp, remote: RemoteStep) -> Outcome {
        let RemoteStep { allowed, charged, state } = remote;
        let op = if self.is_ban() { op.without_units() } else { op };
        let cost = match op {
            // A denied take reports the wait for one unit.
            Op::Take(cost) if cost > 0 && !allowed => 1,
            Op::Hit(cost) | Op::Peek(cost) | Op::Take(cost) | Op::Charge(cost) => cost,
            _ => 0,
        };
        let step = Step { allowed, cost, charged, changed: charged > 0 };
        with_machine!(self, machine => machine.remote_outcome(state, now, step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{AnyState, level};
    use crate::leb128;
    use crate::limit::{Algorithm, Limit};

    /// Returns the numbers that a store would send for a state.
    fn numbers(
        state: &AnyState,
        period: u128,
        now: Timestamp,
        cost: u64,
        machine: &AnyMachine,
    ) -> [u64; 3] {
        let level = |state: &level::LevelState| {
            let part = |number: u128| u64::try_from(number).unwrap();
            [state.time.as_micros(), part(state.level / period), part(state.level % period)]
        };
        match state {
            AnyState::TokenBucket(state) | AnyState::LeakyBucket(state) => level(state),
            AnyState::MovingWindow(_) => {
                let fields = machine.apply(&mut Some(state.clone()), now, Op::Peek(cost)).fields();
                let retry = fields.retry_at.map_or(0, Timestamp::as_micros);
                [fields.used, fields.mark, retry]
            }
            // Others are sent as the words that they are.
            _ => {
                let mut bytes = Vec::new();
                state.to_bytes(&mut bytes);
                let rest = &mut &bytes[1..];
                std::array::from_fn(|_| leb128::take(rest).unwrap_or(0))
            }
        }
    }

    #[test]
    fn the_numbers_of_a_remote_step_lead_to_the_same_decision_as_the_state() {
        for algorithm in Algorithm::PERIODIC {
            let limit: Limit = format!("7/10 seconds {algorithm}").parse().unwrap();
            let (machine, period) = (AnyMachine::new(&limit), limit.period().as_micros());
            let (mut state, mut now) = (None, Timestamp::from_micros(1_790_000_000_000_003));
            for (turn, op) in [
                Op::Hit(2),
                Op::Hit(9),
                Op::Take(4),
                Op::Peek(1),
                Op::Hit(1),
                Op::Take(3),
                Op::Hit(3),
            ]
            .iter()
            .cycle()
            .take(40)
            .enumerate()
            {
                now = now.plus(271_828 * (turn as u64 % 5));
                let wanted = machine.apply(&mut state, now, *op);
                let cost = match op {
                    Op::Take(_) => 1,
                    Op::Hit(cost) | Op::Peek(cost) => *cost,
                    _ => 0,
                };
                let remote = RemoteStep {
                    allowed: wanted.allowed(),
                    charged: wanted.charged(),
                    state: state.as_ref().map(|state| numbers(state, period, now, cost, &machine)),
                };
                let got = machine.remote_decision(*op, now, remote);
                let of = |decision: &Outcome| {
                    (
                        decision.allowed(),
                        decision.used(),
                        decision.remaining(),
                        decision.retry_after(),
                        decision.expires_at(),
                        decision.receipt(),
                    )
                };
                assert_eq!(of(&got), of(&wanted), "{algorithm} {op:?} at {now}");
            }
        }
    }
}
