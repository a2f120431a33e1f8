//! Tests that a direct limiter (one limit without keys) answers as the pure functions define, and
//! is exact under several threads.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::algorithm::{AnyMachine, Op};
use tollgate::{Algorithm, Direct, ErrorKind, Limit, ManualClock};

use super::calls::{Amount, LIMITS, Tick, any_amount, any_tick};
use super::{HOUR, START, supported};
use crate::threads::on_threads;
use tollgate_testkit::model::same;

#[derive(Clone, Copy, Debug)]
enum Call {
    Hit,
    Peek,
    Take,
    Charge,
    /// A refund with the receipt of an earlier decision. The number counts from the newest
    /// decision.
    Refund(usize),
    Set,
    Reset,
}

fn any_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => Just(Call::Hit),
        1 => Just(Call::Peek),
        2 => Just(Call::Take),
        2 => Just(Call::Charge),
        3 => (0..4_usize).prop_map(Call::Refund),
        1 => Just(Call::Set),
        1 => Just(Call::Reset),
    ]
}

/// A direct limiter counts at least this multiple of the capacity before its counts saturate.
const COUNTS: u64 = 16;

fn replay(limit: Limit, calls: &[(Tick, Call, Amount)]) -> Result<(), String> {
    let clock = ManualClock::new(START);
    let machine = AnyMachine::new(&limit);
    let Some(direct) = supported(Direct::with_clock(limit, clock.clone())) else { return Ok(()) };
    let (mut now, mut state, mut receipts) = (START, None, Vec::new());
    for (tick, call, amount) in calls {
        now = tick.from(now, false);
        clock.set(now);
        let amount = amount.of(machine.capacity());
        let used = machine.apply(&mut state, now, Op::Peek(0)).used();
        if used.saturating_add(amount) > COUNTS.saturating_mul(machine.capacity()) {
            continue;
        }
        let (got, op) = match call {
            Call::Hit => (direct.hit_n(amount), Op::Hit(amount)),
            Call::Peek => (direct.peek_n(amount), Op::Peek(amount)),
            Call::Take => (direct.take(amount), Op::Take(amount)),
            Call::Charge => (direct.charge(amount), Op::Charge(amount)),
            Call::Set => (direct.set(amount), Op::Set(amount)),
            Call::Refund(index) => {
                let Some(receipt) = receipts.iter().rev().nth(*index) else { continue };
                (direct.refund(receipt), Op::Refund(*receipt))
            }
            Call::Reset => {
                let fresh_at = machine.fresh_at(state.as_ref());
                state = None;
                let (got, wanted) = (direct.reset(), fresh_at.is_some_and(|at| at > now));
                if got != wanted {
                    return Err(format!("reset at {now}: got {got}"));
                }
                continue;
            }
        };
        let wanted = machine.apply(&mut state, now, op);
        same(&[got], &[wanted]).map_err(|why| format!("{op:?} at {now}\n{why}"))?;
        receipts.push(wanted.receipt());
    }
    Ok(())
}

proptest! {
    #[test]
    fn answers_equal_those_of_the_pure_functions(
        limit in 0..LIMITS.len(),
        calls in vec((any_tick(), any_call(), any_amount()), 1..60),
    ) {
        let limit: Limit = LIMITS[limit].parse().unwrap();
        if let Err(why) = replay(limit, &calls) {
            prop_assert!(false, "{}", why);
        }
    }
}

#[test]
fn several_threads_get_exactly_the_limit() {
    for algorithm in Algorithm::PERIODIC {
        for quota in [200, 5_000] {
            let limit = Limit::new(quota, HOUR).algorithm(algorithm);
            let direct = Direct::with_clock(limit, ManualClock::new(START));
            let Some(direct) = supported(direct) else { continue };
            let hits = quota as usize / 2;
            let admitted =
                on_threads(3, |_| (0..hits).filter(|_| direct.hit().allowed()).count() as u64);
            assert_eq!(admitted.iter().sum::<u64>(), quota, "{algorithm:?}");
            assert_eq!(direct.usage(), quota, "{algorithm:?}");
        }
    }
}

#[test]
fn a_direct_limiter_does_not_support_a_moving_window() {
    let refused = Direct::new("5/hour moving-window").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
