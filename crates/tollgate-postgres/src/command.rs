//! What goes to the function `ask` and what comes back: see `sql/ask.sql`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use tollgate::algorithm::{
    AnyMachine, Fields, MAX_UNITS, Op, State, Step, elastic_window, fixed_window,
    fixed_window_per_key, gcra, level, sliding_window,
};
use tollgate::shared::Mode;
use tollgate::{Algorithm, Decision, Error, Limit, Receipt, Timestamp};

use crate::schema::VERSION;

/// Times up to here stay exact together with all that a limit may add: the year 75,000.
const LATEST: u64 = 1 << 61;

/// Numbers in the answer for each step.
const NUMBERS: usize = 5;

/// Flags of a step.
const ALLOWED: u64 = 1;
const HAS_STATE: u64 = 2;
const NOT_A_STATE: u64 = 4;
const LOCKED: u64 = 8;

/// Verbs of steps that no [`Op`] has.
const TRY: u8 = 8;
const TOGETHER: u8 = 9;

/// A limit as the function wants it.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    machine: AnyMachine,
    algorithm: Algorithm,
    quota: u64,
    /// Microseconds.
    period: u64,
    burst: u64,
    charge_denied: bool,
    /// The most that can pass at once.
    capacity: u64,
}

/// What is done with one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Op(Op),
    Reset,
}

/// One part of a call: a key as it stands in the table, the rule and what to do.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: Vec<u8>,
    pub(crate) rule: Arc<Rule>,
    pub(crate) act: Act,
}

/// What is decided in one step: one part, or several together.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) parts: Vec<Part>,
    pub(crate) mode: Mode,
    pub(crate) at: Option<Timestamp>,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    Decided(Vec<Decision>),
    /// Nothing was done: somebody else holds one of its rows.
    Locked,
    Failed(Error),
}

impl Rule {
    pub(crate) fn new(limit: &Limit) -> Rule {
        Rule {
            machine: AnyMachine::new(limit),
            algorithm: limit.algorithm(),
            quota: limit.quota(),
            period: u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX),
            burst: limit.burst(),
            charge_denied: limit.charge_denied(),
            capacity: match limit.algorithm() {
                Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => limit.burst(),
                _ => limit.quota(),
            },
        }
    }

    /// Its number in `sql/ask.sql`.
    fn algorithm(&self) -> u8 {
        match self.algorithm {
            Algorithm::FixedWindow => 1,
            Algorithm::FixedWindowPerKey => 2,
            Algorithm::ElasticWindow => 3,
            Algorithm::MovingWindow => 4,
            Algorithm::SlidingWindow => 5,
            Algorithm::TokenBucket => 6,
            Algorithm::LeakyBucket => 7,
            _ => 8,
        }
    }

    /// For buckets the burst; for windows whether they charge denied hits.
    fn burst(&self) -> u64 {
        match self.machine {
            AnyMachine::TokenBucket(_) | AnyMachine::LeakyBucket(_) | AnyMachine::Gcra(_) => {
                self.burst
            }
            _ => u64::from(self.charge_denied),
        }
    }

    /// The time that units are worth, where time is what is counted.
    fn worth(&self, units: u64) -> (u64, u64) {
        match &self.machine {
            AnyMachine::Gcra(gcra) => gcra.time_of(units),
            _ => (0, 0),
        }
    }

    /// The decision that five numbers of the answer tell.
    fn decision(&self, act: Act, now: Timestamp, [flags, charged, a, b, c]: [u64; NUMBERS]) -> Decision {
        let allowed = flags & ALLOWED != 0;
        let cost = match act {
            // What a refused take waits for is the first unit.
            Act::Op(Op::Take(cost)) if cost > 0 && !allowed => 1,
            Act::Op(Op::Hit(cost) | Op::Peek(cost) | Op::Take(cost) | Op::Charge(cost)) => cost,
            _ => 0,
        };
        let step = Step { allowed, cost, charged, changed: charged > 0 };
        let has_state = flags & HAS_STATE != 0;
        if let AnyMachine::MovingWindow(_) = self.machine {
            return self.moving_window(step, now, has_state, [a, b, c]);
        }
        let state = has_state.then(|| self.state([a, b, c]));
        self.machine.decision(state.as_ref(), now, step)
    }

    fn state(&self, [a, b, c]: [u64; 3]) -> State {
        let time = Timestamp::from_micros;
        match self.algorithm {
            Algorithm::FixedWindow => {
                State::FixedWindow(fixed_window::State { window: a, count: b })
            }
            Algorithm::FixedWindowPerKey => {
                State::FixedWindowPerKey(fixed_window_per_key::State { start: time(a), count: b })
            }
            Algorithm::ElasticWindow => {
                State::ElasticWindow(elastic_window::State { expiry: time(a), count: b })
            }
            Algorithm::SlidingWindow => State::SlidingWindow(sliding_window::State {
                start: time(a),
                previous: b,
                current: c,
            }),
            Algorithm::TokenBucket => State::TokenBucket(self.level(a, b, c)),
            Algorithm::LeakyBucket => State::LeakyBucket(self.level(a, b, c)),
            _ => State::Gcra(gcra::State { tat: time(a), part: b }),
        }
    }

    fn level(&self, at: u64, units: u64, rest: u64) -> level::State {
        let level = u128::from(units) * u128::from(self.period) + u128::from(rest);
        level::State { time: Timestamp::from_micros(at), level }
    }

    /// The log stays in the database: what is used, the newest entry, and when the refused cost passes.
    fn moving_window(
        &self,
        step: Step,
        now: Timestamp,
        has_state: bool,
        [used, newest, retry]: [u64; 3],
    ) -> Decision {
        let reachable = !step.allowed && step.cost <= self.quota;
        let fresh_at = Timestamp::from_micros(newest.saturating_add(self.period));
        let fields = Fields {
            limit: self.quota,
            remaining: self.quota.saturating_sub(used),
            used,
            retry_at: reachable.then(|| Timestamp::from_micros(retry)),
            fresh_at: Some(fresh_at).filter(|at| has_state && *at > now),
            mark: newest,
        };
        Decision::of_fields(step, now, fields)
    }
}

impl Part {
    /// The number of what is to be done, of how many units, and the receipt that they are given back with.
    fn verb(&self) -> (u8, u64, Option<Receipt>) {
        match self.act {
            Act::Op(Op::Hit(cost)) => (1, cost, None),
            Act::Op(Op::Peek(cost)) => (2, cost, None),
            Act::Op(Op::Take(cost)) => (3, cost, None),
            Act::Op(Op::Charge(units)) => (4, units, None),
            Act::Op(Op::Refund(receipt)) => (5, receipt.units, Some(receipt)),
            Act::Op(Op::RefundUnits(units)) => (5, units, None),
            Act::Op(Op::Set(units)) => (6, units, None),
            Act::Op(_) | Act::Reset => (7, 0, None),
        }
    }

    /// Whether it can leave a state where there is none. A hit that can never pass leaves none unless it is charged all the same.
    fn makes(&self) -> bool {
        match self.act {
            Act::Op(Op::Hit(cost)) => {
                cost > 0 && (self.rule.charge_denied || cost <= self.rule.capacity)
            }
            Act::Op(Op::Take(units) | Op::Charge(units)) => units > 0,
            Act::Op(Op::Set(_)) => true,
            _ => false,
        }
    }
}

/// A batch of calls on its way into the arguments of the function: a list for each.
#[derive(Debug, Default)]
struct Arguments {
    lists: [String; 14],
}

impl Arguments {
    fn push(&mut self, place: usize, part: &Part, verb: u8, at: Option<Timestamp>) {
        let rule = &part.rule;
        let (_, units, receipt) = part.verb();
        let units = units.min(MAX_UNITS);
        let (worth, worth_part) = rule.worth(units);
        let (tolerance, tolerance_part) = rule.worth(rule.burst);
        // Without a receipt: as if charged now.
        let none = |number: Option<u64>| number.map_or(-1, |number| number.min(LATEST * 2 - 1) as i64);
        let numbers: [i64; 14] = [
            place as i64,
            verb.into(),
            rule.algorithm().into(),
            units as i64,
            none(at.map(Timestamp::as_micros)),
            rule.quota as i64,
            rule.period as i64,
            rule.burst() as i64,
            worth as i64,
            worth_part as i64,
            tolerance as i64,
            tolerance_part as i64,
            none(receipt.map(|receipt| receipt.at.as_micros())),
            none(receipt.map(|receipt| receipt.mark)),
        ];
        for (list, number) in self.lists.iter_mut().zip(numbers) {
            let _ = write!(list, "{}{number}", if list.is_empty() { "" } else { "," });
        }
    }
}

/// The statement that asks all calls in order.
pub(crate) fn statement<'a>(schema: &str, skip: bool, calls: impl Iterator<Item = &'a Call> + Clone) -> String {
    let mut keys: BTreeMap<&[u8], (usize, bool)> = BTreeMap::new();
    for part in calls.clone().flat_map(|call| &call.parts) {
        keys.entry(&part.key).or_default().1 |= part.makes();
    }
    let (mut names, mut makes) = (String::new(), String::new());
    for (index, (key, (place, may))) in keys.iter_mut().enumerate() {
        *place = index + 1;
        let comma = if index == 0 { "" } else { "," };
        // Backslashes twice over: for the text, and for the list in it.
        let _ = write!(names, "{comma}\"\\\\\\\\x");
        hex(key, &mut names);
        names.push('"');
        let _ = write!(makes, "{comma}{}", if *may { "t" } else { "f" });
    }
    let mut arguments = Arguments::default();
    for Call { parts, mode, at } in calls {
        let place = |part: &Part| keys.get(&part.key[..]).map_or(0, |(place, _)| *place);
        match mode {
            Mode::Each => {
                for part in parts {
                    arguments.push(place(part), part, part.verb().0, *at);
                }
            }
            // Ask all, then charge all or refuse all.
            Mode::Together => {
                for (verb, part) in [TRY, TOGETHER].iter().flat_map(|verb| parts.iter().map(move |part| (*verb, part))) {
                    arguments.push(place(part), part, verb, *at);
                }
            }
        }
    }
    let mut text = format!("SELECT {schema}.ask({VERSION},{skip},E'{{{names}}}','{{{makes}}}'");
    for list in &arguments.lists {
        let _ = write!(text, ",'{{{list}}}'");
    }
    text.push(')');
    text
}

fn hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)].into());
        out.push(DIGITS[usize::from(byte & 15)].into());
    }
}

/// Bytes as an argument of a function.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    let mut text = String::from("E'\\\\x");
    hex(bytes, &mut text);
    text.push('\'');
    text
}

/// The numbers of an answer: the time, then those of each part.
pub(crate) struct Answer {
    now: Timestamp,
    numbers: std::vec::IntoIter<u64>,
}

impl Answer {
    /// Reads an array of bigint as text.
    pub(crate) fn parse(text: &str) -> Result<Answer, Error> {
        let list = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let numbers: Option<Vec<u64>> = list.and_then(|list| list.split(',').map(|number| number.parse().ok()).collect());
        let mut numbers = numbers.ok_or_else(|| not_an_answer(text))?.into_iter();
        let now = numbers.next().ok_or_else(|| not_an_answer(text))?;
        Ok(Answer { now: Timestamp::from_micros(now), numbers })
    }

    /// What came of the next call.
    pub(crate) fn next(&mut self, call: &Call) -> Outcome {
        let now = call.at.unwrap_or(self.now);
        let mut decisions = Vec::with_capacity(call.parts.len());
        let mut spoiled = 0;
        for part in &call.parts {
            let mut five = [0; NUMBERS];
            for number in &mut five {
                let Some(next) = self.numbers.next() else { return Outcome::Failed(not_an_answer("too short")) };
                *number = next;
            }
            spoiled |= five[0] & (LOCKED | NOT_A_STATE);
            decisions.push(part.rule.decision(part.act, now, five));
        }
        match spoiled {
            0 => Outcome::Decided(decisions),
            flags if flags & NOT_A_STATE != 0 => Outcome::Failed(Error::store("the row of the key is not a state of this limit", false)),
            _ => Outcome::Locked,
        }
    }
}

fn not_an_answer(text: &str) -> Error {
    Error::store(format!("not an answer of the function: {text}"), false)
}

/// Refuses a time that the function cannot reckon with.
pub(crate) fn check_time(at: Option<Timestamp>) -> Result<(), Error> {
    match at {
        Some(at) if at.as_micros() > LATEST => Err(Error::request(format!(
            "time {at}: PostgreSQL reckons exactly until {} (the year 75,000)",
            Timestamp::from_micros(LATEST)
        ))),
        _ => Ok(()),
    }
}
