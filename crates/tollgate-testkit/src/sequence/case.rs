//! Random calls: an operation, its limit and key, and its time.

use std::time::Duration;

use tollgate::Timestamp;
use tollgate::algorithm::Op;

use super::keys::AnyKey;
use crate::random::Random;

/// Limits of all kinds. Some share a name.
pub(super) const LIMITS: [&str; 42] = [
    "5/second",
    "7/second burst=3",
    "1/millisecond burst=4",
    "3/minute name=tier",
    "9/minute burst=12 name=tier",
    "4/second token-bucket burst=6",
    "7/second token-bucket burst=3",
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
    "3/minute sliding-window name=tier",
    "8/minute sliding-window name=tier",
    "5/second moving-window",
    "2/100 ms moving-window",
    "3/minute moving-window name=tier",
    "8/minute moving-window name=tier",
    "4/day calendar tz=Europe/Berlin",
    "3/week calendar start=sunday charge-denied",
    "2/month calendar anchor=31 at=06:00",
    // Callers that disagree about the edges of the same windows.
    "3/day calendar name=tier",
    "8/day calendar tz=Asia/Tokyo name=tier",
    "5/day calendar tz=America/New_York at=03:30 name=tier",
    "7 total name=credit",
    "12 total name=credit",
    "1000000/day burst=1000000",
    "1/365 days",
    "1000000000000/31 days fixed-window",
    "1000000000000/millisecond",
    "1/36500 days sliding-window",
    "1000000000/36500 days leaky-bucket burst=1000000000",
    "999999999999/day token-bucket burst=7",
    "1000000000000/36500 days elastic-window charge-denied",
];

/// One call, on limits of the case by their index.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// Independent operations, sent as one call where there is such a call.
    Each(Vec<(On, What)>),
    /// A refund by the receipt of an earlier decision, counted from the newest.
    Refund(usize),
    /// Hits of cost 1 on many keys of a limit.
    HitEach(usize, Vec<usize>),
    /// Hits on several limits and keys, all or none.
    Together(Vec<(On, Amount)>),
    /// The same on all limits of one key.
    Policy(usize, Amount),
    /// An operation on all limits of one key.
    PolicyEach(usize, What),
    PolicyRefund(usize),
    PolicyReset(usize),
    Reset(On),
    Usage(On),
    Clear(usize),
}

/// A limit of the case and a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct On {
    pub(super) limit: usize,
    pub(super) key: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Hit(Amount),
    Peek(Amount),
    Take(Amount),
    Charge(Amount),
    RefundUnits(Amount),
    Set(Amount),
}

impl What {
    pub(super) fn op(self, capacity: u64) -> Op {
        match self {
            What::Hit(amount) => Op::Hit(amount.of(capacity)),
            What::Peek(amount) => Op::Peek(amount.of(capacity)),
            What::Take(amount) => Op::Take(amount.of(capacity)),
            What::Charge(amount) => Op::Charge(amount.of(capacity)),
            What::RefundUnits(amount) => Op::RefundUnits(amount.of(capacity)),
            What::Set(amount) => Op::Set(amount.of(capacity)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Units(u64),
    /// A part of the capacity.
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

/// How the clock moves before a call, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tick {
    Ahead(u64),
    Back(u64),
}

impl Tick {
    pub(super) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Tick::Ahead(micros) => now + Duration::from_micros(micros),
            Tick::Back(micros) => Timestamp::from_micros(now.as_micros().saturating_sub(micros)),
        }
    }
}

impl Tick {
    /// Both moves, one after the other.
    pub(super) fn and(self, next: Tick) -> Tick {
        match (self, next) {
            (Tick::Ahead(a), Tick::Ahead(b)) => Tick::Ahead(a + b),
            (Tick::Back(a), Tick::Back(b)) => Tick::Back(a + b),
            (Tick::Ahead(a), Tick::Back(b)) | (Tick::Back(b), Tick::Ahead(a)) if a >= b => {
                Tick::Ahead(a - b)
            }
            (Tick::Ahead(a), Tick::Back(b)) | (Tick::Back(b), Tick::Ahead(a)) => Tick::Back(b - a),
        }
    }
}

/// The limits by their index in [`LIMITS`], and the calls with their times.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(super) limits: Vec<usize>,
    pub(super) calls: Vec<(Tick, Call)>,
}

const LIMITS_OF_A_CASE: usize = 5;
const MOST_CALLS: u64 = 60;

impl Case {
    pub(super) fn any(random: &mut Random) -> Case {
        let mut all: Vec<usize> = (0..LIMITS.len()).collect();
        let mut draw = || all.swap_remove(random.index(all.len()));
        let limits = (0..LIMITS_OF_A_CASE).map(|_| draw()).collect();
        let calls = 1 + random.below(MOST_CALLS);
        Case { limits, calls: (0..calls).map(|_| (any_tick(random), any_call(random))).collect() }
    }
}

fn any_tick(random: &mut Random) -> Tick {
    const SECOND: u64 = 1_000_000;
    match random.weighted(&[8, 4, 10, 3, 1, 4, 2]) {
        0 => Tick::Ahead(0),
        1 => Tick::Ahead(random.below(3_000)),
        2 => Tick::Ahead(random.below(SECOND)),
        3 => Tick::Ahead(random.below(120 * SECOND)),
        // At most a few years in a long case: some stores cannot count further.
        4 => Tick::Ahead(random.below(20 * 86_400 * SECOND)),
        5 => Tick::Back(random.below(2 * SECOND)),
        _ => Tick::Back(random.below(100 * SECOND)),
    }
}

fn any_amount(random: &mut Random) -> Amount {
    match random.weighted(&[8, 4, 1, 1, 1]) {
        0 => Amount::Units(random.below(4)),
        1 => Amount::Quarters(1 + random.below(4)),
        2 => Amount::Quarters(5 + random.below(8)),
        3 => Amount::MoreThanFits,
        _ => Amount::Most,
    }
}

fn any_what(random: &mut Random) -> What {
    let which = random.weighted(&[12, 2, 3, 3, 2, 2]);
    let amount = any_amount(random);
    match which {
        0 => What::Hit(amount),
        1 => What::Peek(amount),
        2 => What::Take(amount),
        3 => What::Charge(amount),
        4 => What::RefundUnits(amount),
        _ => What::Set(amount),
    }
}

/// A few keys are frequent, so that calls meet on them.
fn any_key(random: &mut Random) -> usize {
    match random.weighted(&[3, 1, 1]) {
        0 => 0,
        1 => 5,
        _ => random.index(AnyKey::COUNT),
    }
}

fn any_on(random: &mut Random) -> On {
    On { limit: random.index(LIMITS_OF_A_CASE), key: any_key(random) }
}

fn list<T>(random: &mut Random, most: u64, mut one: impl FnMut(&mut Random) -> T) -> Vec<T> {
    (0..=random.below(most)).map(|_| one(random)).collect()
}

fn any_call(random: &mut Random) -> Call {
    match random.weighted(&[16, 6, 4, 1, 5, 6, 3, 2, 1, 1, 1, 1]) {
        0 => Call::Each(vec![(any_on(random), any_what(random))]),
        1 => Call::Each(list(random, 5, |random| (any_on(random), any_what(random)))),
        2 => Call::Refund(random.index(8)),
        3 => Call::HitEach(random.index(LIMITS_OF_A_CASE), list(random, 20, any_key)),
        4 => Call::Together(list(random, 5, |random| {
            let on = On { key: random.index(AnyKey::TAGGED), ..any_on(random) };
            (on, any_amount(random))
        })),
        5 => Call::Policy(any_key(random), any_amount(random)),
        6 => Call::PolicyEach(any_key(random), any_what(random)),
        7 => Call::PolicyRefund(random.index(4)),
        8 => Call::PolicyReset(any_key(random)),
        9 => Call::Reset(any_on(random)),
        10 => Call::Usage(any_on(random)),
        _ => Call::Clear(random.index(LIMITS_OF_A_CASE)),
    }
}
