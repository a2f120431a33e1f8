//! Generates random calls: an operation, its limit and key, and its time.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use tollgate::{Key, KeyRef, Tagged, Timestamp};

/// Limits of all kinds. Some of them have the same name.
pub(super) const LIMITS: [&str; 28] = [
    "5/second",
    "7/second burst=3",
    "1/millisecond burst=4",
    "3/minute name=tier",
    "9/minute burst=12 name=tier",
    "4/second token-bucket burst=6",
    "3/minute token-bucket name=tier",
    "7/minute token-bucket name=tier",
    "10/minute leaky-bucket",
    "5/second fixed-window",
    "3/1500 ms fixed-window charge-denied",
    "3/minute fixed-window name=tier",
    "8/minute fixed-window name=tier",
    "5/second fixed-window-per-key",
    "2/minute fixed-window-per-key charge-denied",
    "4/second elastic-window",
    "2/second elastic-window charge-denied",
    "6/second sliding-window",
    "1/minute sliding-window",
    "5/second moving-window",
    "2/100 ms moving-window",
    "1000000/day burst=1000000",
    "1/365 days",
    "1000000000000/31 days fixed-window",
    "1000000000000/millisecond",
    "1/36500 days sliding-window",
    "1000000000/36500 days leaky-bucket burst=1000000000",
    "1000000000000/36500 days elastic-window charge-denied",
];

/// One of several keys of different kinds, chosen by an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyKey(pub(super) usize);

impl AnyKey {
    pub(super) const COUNT: usize = 8;
}

impl Key for AnyKey {
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        match self.0 {
            0 => "".with_key(f),
            1 => "alice".with_key(f),
            2 => "a key that is stored on the heap".with_key(f),
            3 => b"\0\xff\0".with_key(f),
            4 => 42_u64.with_key(f),
            5 => ("alice", "GET").with_key(f),
            6 => ("alice", 7, "x".repeat(200)).with_key(f),
            _ => Tagged("alice", "GET").with_key(f),
        }
    }
}

/// One call. Numbers of limits are indexes into the limits of the case.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Hit(On, Amount),
    Peek(On, Amount),
    Take(On, Amount),
    Charge(On, Amount),
    /// A refund with the receipt of an earlier decision. The number counts from the newest
    /// decision.
    Refund(usize),
    RefundUnits(On, Amount),
    Set(On, Amount),
    Reset(On),
    Usage(On),
    Clear(usize),
    Each(usize, Vec<usize>),
    PolicyHit(usize, Amount),
    PolicyPeek(usize, Amount),
    PolicyCharge(usize, Amount),
    PolicySet(usize, Amount),
    PolicyRefund(usize),
    PolicyReset(usize),
    /// An all-or-nothing hit on these items. An item of limit 0 is an item of the policy.
    All(Vec<(On, Amount)>),
    Sweep,
}

/// A limit and a key, by their indexes.
#[derive(Clone, Copy, Debug)]
pub(super) struct On {
    pub(super) limit: usize,
    pub(super) key: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Units(u64),
    /// A number of quarters of the capacity.
    Quarters(u64),
    MoreThanFits,
    Most,
}

impl Amount {
    pub(super) fn of(self, capacity: u64) -> u64 {
        match self {
            Amount::Units(units) => units,
            Amount::Quarters(quarters) => capacity * quarters / 4,
            Amount::MoreThanFits => capacity + 1,
            Amount::Most => u64::MAX,
        }
    }
}

/// The movement of the clock before a call, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tick {
    Ahead(u64),
    Back(u64),
}

/// A test case: the limits, by their indexes in [`LIMITS`], and the calls with their times.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) limits: Vec<usize>,
    pub(super) calls: Vec<(Tick, Call)>,
}

const LIMITS_OF_A_CASE: usize = 5;

fn any_on() -> impl Strategy<Value = On> {
    // A few keys are frequent, so that several calls are on the same key.
    let key = prop_oneof![4 => 0..2_usize, 1 => 0..AnyKey::COUNT];
    (0..LIMITS_OF_A_CASE, key).prop_map(|(limit, key)| On { limit, key })
}

pub(super) fn any_amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        8 => (0..4_u64).prop_map(Amount::Units),
        4 => (1..=4_u64).prop_map(Amount::Quarters),
        1 => (5..=12_u64).prop_map(Amount::Quarters),
        1 => Just(Amount::MoreThanFits),
        1 => Just(Amount::Most),
    ]
}

fn any_call() -> impl Strategy<Value = Call> {
    let (on, amount) = (any_on, any_amount);
    let key = || 0..AnyKey::COUNT;
    prop_oneof![
        12 => (on(), amount()).prop_map(|(on, n)| Call::Hit(on, n)),
        2 => (on(), amount()).prop_map(|(on, n)| Call::Peek(on, n)),
        3 => (on(), amount()).prop_map(|(on, n)| Call::Take(on, n)),
        3 => (on(), amount()).prop_map(|(on, n)| Call::Charge(on, n)),
        4 => (0..8_usize).prop_map(Call::Refund),
        2 => (on(), amount()).prop_map(|(on, n)| Call::RefundUnits(on, n)),
        2 => (on(), amount()).prop_map(|(on, n)| Call::Set(on, n)),
        1 => on().prop_map(Call::Reset),
        1 => on().prop_map(Call::Usage),
        1 => (0..LIMITS_OF_A_CASE).prop_map(Call::Clear),
        1 => (0..LIMITS_OF_A_CASE, vec(key(), 0..20)).prop_map(|(l, keys)| Call::Each(l, keys)),
        6 => (0..2_usize, amount()).prop_map(|(key, n)| Call::PolicyHit(key, n)),
        1 => (0..2_usize, amount()).prop_map(|(key, n)| Call::PolicyPeek(key, n)),
        1 => (0..2_usize, amount()).prop_map(|(key, n)| Call::PolicyCharge(key, n)),
        1 => (0..2_usize, amount()).prop_map(|(key, n)| Call::PolicySet(key, n)),
        2 => (0..4_usize).prop_map(Call::PolicyRefund),
        1 => (0..2_usize).prop_map(Call::PolicyReset),
        5 => vec((on(), amount()), 0..5).prop_map(Call::All),
        1 => Just(Call::Sweep),
    ]
}

pub(super) fn any_tick() -> impl Strategy<Value = Tick> {
    const SECOND: u64 = 1_000_000;
    prop_oneof![
        4 => Just(Tick::Ahead(0)),
        2 => (0..3_000_u64).prop_map(Tick::Ahead),
        6 => (0..SECOND).prop_map(Tick::Ahead),
        2 => (0..120 * SECOND).prop_map(Tick::Ahead),
        1 => (0..2 * 365 * 86_400 * SECOND / 50).prop_map(Tick::Ahead),
        1 => (0..2 * SECOND).prop_map(Tick::Back),
        1 => (0..100 * SECOND).prop_map(Tick::Back),
    ]
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let limits = subsequence((0..LIMITS.len()).collect::<Vec<_>>(), LIMITS_OF_A_CASE);
    (limits.prop_shuffle(), vec((any_tick(), any_call()), 1..80))
        .prop_map(|(limits, calls)| Case { limits, calls })
}

impl Tick {
    /// Returns the time after the tick. If `forward` is set, the clock stands still instead of
    /// going back.
    pub(super) fn from(self, now: Timestamp, forward: bool) -> Timestamp {
        match self {
            Tick::Ahead(micros) => now + Duration::from_micros(micros),
            Tick::Back(_) if forward => now,
            Tick::Back(micros) => Timestamp::from_micros(now.as_micros().saturating_sub(micros)),
        }
    }
}
