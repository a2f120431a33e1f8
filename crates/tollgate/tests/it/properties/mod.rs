//! Tests of the properties of all algorithms, with random limits and random timelines.
//!
//! A checker is a function that gets the calls on a subject and their answers, and returns an error
//! if they violate a property. The subjects are the machines of the eight algorithms. `wrong.rs`
//! runs the same checkers on machines with known mistakes, to prove that they detect them.

mod alike;
mod bound;
mod extremes;
mod fields;
mod fresh;
mod known;
mod refund;
mod retry;
mod time;
mod wrong;

use std::fmt::Debug;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Algorithm, Limit, Receipt, Timestamp};

/// A key under test. A clone can be used to see what another operation would do.
pub(crate) trait Subject: Clone + PartialEq + Debug {
    fn apply(&mut self, now: u64, op: Op) -> Answer;

    /// Returns the answer that the operation would get.
    fn would(&self, now: u64, op: Op) -> Answer {
        self.clone().apply(now, op)
    }
}

/// All fields of a decision, with times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) retry: Option<u64>,
    pub(crate) reset: u64,
    pub(crate) charged: u64,
    pub(crate) receipt: Receipt,
}

impl Answer {
    /// Returns the answer without the receipt, because each algorithm uses its mark differently.
    pub(crate) fn fields(self) -> Answer {
        Answer {
            receipt: Receipt {
                units: 0,
                at: Timestamp::EPOCH,
                mark: 0,
                source: tollgate::Source::Store,
            },
            ..self
        }
    }
}

/// A key whose state is changed by the pure functions.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    machine: AnyMachine,
    state: Option<AnyState>,
}

impl PartialEq for Key {
    /// Compares the states, because only keys of the same machine are compared.
    fn eq(&self, other: &Key) -> bool {
        self.state == other.state
    }
}

impl Key {
    pub(crate) fn new(limit: &Limit) -> Key {
        Key { machine: AnyMachine::new(limit), state: None }
    }
}

impl Subject for Key {
    fn apply(&mut self, now: u64, op: Op) -> Answer {
        let decision = self.machine.apply(&mut self.state, Timestamp::from_micros(now), op);
        let micros = |span: Duration| u64::try_from(span.as_micros()).expect("below 2^62");
        Answer {
            allowed: decision.allowed(),
            limit: decision.limit(),
            used: decision.used(),
            remaining: decision.remaining(),
            retry: decision.retry_after().map(micros),
            reset: micros(decision.reset_after()),
            charged: decision.charged(),
            receipt: decision.receipt(),
        }
    }
}

/// One operation, the key before and after it, and the answer.
#[derive(Clone, Debug)]
pub(crate) struct Seen<S> {
    pub(crate) before: S,
    pub(crate) now: u64,
    pub(crate) op: Op,
    pub(crate) answer: Answer,
    pub(crate) after: S,
}

impl<S: Debug> Seen<S> {
    /// Returns an error message with all details of the operation.
    pub(crate) fn wrong(&self, what: impl std::fmt::Display) -> String {
        format!("{what}; seen: {self:#?}")
    }
}

/// The movement of the clock before an operation.
#[derive(Clone, Copy, Debug)]
enum Go {
    /// The clock moves forward by this many microseconds.
    Ticks(u64),
    /// The clock moves forward by this many thousandths of the interval between two units.
    Interval(u64),
    /// The clock moves forward by this many thousandths of the period.
    Period(u64),
    /// The clock moves to the retry time of the last denial, plus this many microseconds, minus
    /// one.
    Retry(u64),
    /// The clock moves to the time at which the key is fresh, plus this many microseconds, minus
    /// one.
    Reset(u64),
    /// The clock goes back by this many thousandths of the period.
    Back(u64),
    /// The clock goes back by this many microseconds.
    BackBy(u64),
}

/// An operation that does not yet depend on a limit. The index chooses a cost from 0 to the
/// capacity + 1, or the receipt of a refund.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Hit(Index),
    HitOne,
    Peek(Index),
    Take(Index),
    Charge(Index),
    Set(Index),
    RefundUnits(Index),
    Refund(Index),
}

/// A step of a timeline, relative to the limit that the timeline is run with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    go: Go,
    ask: Ask,
}

/// The start of timelines: 2026-01-01T00:00:00Z.
pub(crate) const START: u64 = 1_767_225_600_000_000;
pub(crate) const YEAR: u64 = 365 * 86_400_000_000;

fn forward() -> impl Strategy<Value = Go> {
    prop_oneof![
        4 => (0_u64..4).prop_map(Go::Ticks),
        4 => (0_u64..1500).prop_map(Go::Interval),
        2 => (0_u64..2500).prop_map(Go::Period),
        3 => (0_u64..=2).prop_map(Go::Retry),
        1 => (0_u64..=2).prop_map(Go::Reset),
    ]
}

fn back() -> impl Strategy<Value = Go> {
    let jump = select(vec![1, 1_000_000, YEAR]);
    prop_oneof![(0_u64..3000).prop_map(Go::Back), jump.prop_map(Go::BackBy)]
}

fn hit() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => Just(Ask::HitOne),
        3 => any::<Index>().prop_map(Ask::Hit),
        1 => any::<Index>().prop_map(Ask::Take),
        1 => any::<Index>().prop_map(Ask::Peek),
    ]
}

fn any_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => hit(),
        1 => any::<Index>().prop_map(Ask::Charge),
        1 => any::<Index>().prop_map(Ask::Set),
        1 => any::<Index>().prop_map(Ask::RefundUnits),
        3 => any::<Index>().prop_map(Ask::Refund),
    ]
}

fn steps(
    go: impl Strategy<Value = Go>,
    ask: impl Strategy<Value = Ask>,
) -> impl Strategy<Value = Timeline> {
    let step = (go, ask).prop_map(|(go, ask)| Step { go, ask });
    let start = (0..10_000_000_u64).prop_map(|offset| START + offset);
    (start, vec(step, 1..60)).prop_map(|(start, steps)| Timeline { start, steps })
}

/// Generates timelines with only hits, takes and peeks, whose clock never goes back.
pub(crate) fn hits() -> impl Strategy<Value = Timeline> {
    steps(forward(), hit())
}

/// Generates timelines with only hits, takes and peeks, whose clock sometimes goes back.
pub(crate) fn hits_with_jumps() -> impl Strategy<Value = Timeline> {
    steps(prop_oneof![5 => forward(), 1 => back()], hit())
}

/// Generates timelines with all operations, whose clock never goes back.
pub(crate) fn any_ops() -> impl Strategy<Value = Timeline> {
    steps(forward(), any_ask())
}

/// Generates timelines with all operations, whose clock sometimes goes back.
pub(crate) fn any_ops_with_jumps() -> impl Strategy<Value = Timeline> {
    steps(prop_oneof![5 => forward(), 1 => back()], any_ask())
}

/// A start time and steps that do not yet depend on a limit.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    start: u64,
    steps: Vec<Step>,
}

impl Timeline {
    /// Runs the timeline on a fresh subject with this limit.
    pub(crate) fn walk<S: Subject>(&self, limit: &Limit, mut subject: S) -> Vec<Seen<S>> {
        let mut seen: Vec<Seen<S>> = Vec::new();
        let (mut now, mut retry_at, mut reset_at) = (self.start, self.start, self.start);
        for step in &self.steps {
            let receipts: Vec<Receipt> = seen.iter().map(|seen| seen.answer.receipt).collect();
            now = moved(now, step.go, limit, retry_at, reset_at);
            let op = op(step.ask, limit, &receipts);
            let before = subject.clone();
            let answer = subject.apply(now, op);
            if let Some(wait) = answer.retry.filter(|_| !answer.allowed) {
                retry_at = now + wait;
            }
            reset_at = now + answer.reset;
            seen.push(Seen { before, now, op, answer, after: subject.clone() });
        }
        seen
    }
}

fn moved(now: u64, go: Go, limit: &Limit, retry_at: u64, reset_at: u64) -> u64 {
    let period = period(limit);
    match go {
        Go::Ticks(ticks) => now + ticks,
        Go::Interval(share) => now + period * share / 1000 / limit.quota(),
        Go::Period(share) => now + period * share / 1000,
        Go::Retry(off) => now.max(retry_at + off - 1),
        Go::Reset(off) => now.max(reset_at + off - 1),
        Go::Back(share) => now - period * share / 1000,
        // The lower bound keeps a timeline with many of these jumps after the epoch.
        Go::BackBy(micros) => now.saturating_sub(micros).max(START / 2),
    }
}

fn op(ask: Ask, limit: &Limit, receipts: &[Receipt]) -> Op {
    let cost = |index: Index| index.index(limit.burst() as usize + 2) as u64;
    match ask {
        Ask::Hit(index) => Op::Hit(cost(index)),
        Ask::HitOne => Op::Hit(1),
        Ask::Peek(index) => Op::Peek(cost(index)),
        Ask::Take(index) => Op::Take(cost(index)),
        Ask::Charge(index) => Op::Charge(cost(index)),
        Ask::Set(index) => Op::Set(cost(index)),
        Ask::RefundUnits(index) => Op::RefundUnits(cost(index)),
        Ask::Refund(_) if receipts.is_empty() => Op::RefundUnits(1),
        Ask::Refund(index) => Op::Refund(*index.get(receipts)),
    }
}

/// Returns the period in microseconds.
pub(crate) fn period(limit: &Limit) -> u64 {
    u64::try_from(limit.period().as_micros()).expect("at most 100 years")
}

/// The numbers of a limit. They are so small that a short timeline reaches every edge case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    quota: u64,
    period: u64,
    burst: u64,
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let period = prop_oneof![
        select(vec![1_000, 7_000, 100_000, 1_000_000, 1_500_000, 3_000_000]),
        1_000_u64..3_000_000
    ];
    (1_u64..=20, period, 1_u64..=30).prop_map(|(quota, period, burst)| Shape {
        quota,
        period,
        burst,
    })
}

impl Shape {
    pub(crate) fn limit(self, algorithm: Algorithm) -> Limit {
        let limit = Limit::new(self.quota, Duration::from_micros(self.period)).algorithm(algorithm);
        let limit = if algorithm.has_burst() { limit.burst(self.burst) } else { limit };
        limit.build().expect("a small limit is valid")
    }

    /// Returns a limit of each algorithm, and one with `charge-denied` of each algorithm that
    /// supports it.
    pub(crate) fn limits(self) -> Vec<Limit> {
        let charging =
            Algorithm::PERIODIC.into_iter().filter(|algorithm| algorithm.can_charge_denied());
        let charging = charging.map(|algorithm| {
            let limit = Limit::new(self.quota, Duration::from_micros(self.period));
            limit.algorithm(algorithm).charge_denied().build().expect("a window is valid")
        });
        Algorithm::PERIODIC
            .into_iter()
            .map(|algorithm| self.limit(algorithm))
            .chain(charging)
            .collect()
    }

    /// Checks a rule with every limit of this shape.
    pub(crate) fn every_limit(
        self,
        check: impl Fn(&Limit) -> Result<(), String>,
    ) -> Result<(), TestCaseError> {
        self.limits().iter().try_for_each(|limit| {
            check(limit).map_err(|wrong| TestCaseError::fail(format!("{limit}: {wrong}")))
        })
    }
}

/// Checks every operation of a timeline.
pub(crate) fn each<S>(
    seen: &[Seen<S>],
    check: impl Fn(&Seen<S>) -> Result<(), String>,
) -> Result<(), String> {
    seen.iter().try_for_each(check)
}

pub(crate) fn config(cases: u32) -> ProptestConfig {
    // Failures are not saved to files. A failure prints its smallest case, which can then become a
    // separate test.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
