//! What goes to the script and what comes back: see `lua/main.lua` and the head of each algorithm's
//! file for the arguments it reads.

use redis::{Cmd, RedisResult, Value};
use tollgate::algorithm::{AnyMachine, MAX_UNITS, Op, RemoteStep, gcra};
use tollgate::{Algorithm, Error, Limit, Outcome, Receipt, Timestamp};

use crate::failure;

/// Times up to here stay exact in a script, together with a period of a hundred years: the year
/// 2112.
const LATEST: u64 = 1 << 52;

/// A limit as the script wants it.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) machine: AnyMachine,
    algorithm: Algorithm,
    quota: u64,
    /// Microseconds.
    period: u64,
    burst: u64,
    charge_denied: bool,
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
        }
    }

    /// The arguments of one operation.
    fn write(&self, op: Op, cmd: &mut Cmd) {
        let (verb, units, receipt) = match op {
            Op::Hit(cost) => ("hit", cost, None),
            Op::Peek(cost) => ("peek", cost, None),
            Op::Take(cost) => ("take", cost, None),
            Op::Charge(units) => ("charge", units, None),
            Op::Set(units) => ("set", units, None),
            Op::Refund(receipt) => ("refund", receipt.units, Some(receipt)),
            Op::RefundUnits(units) => ("refund", units, None),
            Op::Reset => ("reset", 0, None),
        };
        let units = units.min(MAX_UNITS);
        cmd.arg(self.algorithm.as_str()).arg(verb).arg(units);
        if verb == "refund" {
            match receipt {
                Some(Receipt { at, mark, .. }) => cmd.arg(at.as_micros()).arg(mark),
                None => cmd.arg(-1).arg(-1),
            };
        }
        match &self.machine {
            AnyMachine::Gcra(gcra) => self.write_gcra(gcra, verb, units, cmd),
            AnyMachine::TokenBucket(_) | AnyMachine::LeakyBucket(_) => {
                cmd.arg(self.quota).arg(self.period).arg(self.burst);
            }
            AnyMachine::SlidingWindow(_) | AnyMachine::MovingWindow(_) => {
                cmd.arg(self.quota).arg(self.period);
            }
            _ => {
                cmd.arg(self.quota).arg(self.period).arg(u8::from(self.charge_denied));
            }
        }
    }

    fn write_gcra(&self, gcra: &gcra::Gcra, verb: &str, units: u64, cmd: &mut Cmd) {
        let span = |units: u64, cmd: &mut Cmd| {
            let (micros, part) = gcra.time_of(units);
            cmd.arg(micros / 1_000_000).arg(micros % 1_000_000).arg(part);
        };
        cmd.arg(self.quota).arg(self.burst);
        span(self.burst, cmd);
        span(units, cmd);
        match verb {
            "charge" => span(MAX_UNITS, cmd),
            "take" => {
                // No take is granted more than the burst.
                let bits = units.min(self.burst).checked_ilog2().map_or(0, |bits| bits + 1);
                cmd.arg(bits);
                (0..bits).for_each(|bit| span(1 << bit, cmd));
            }
            _ => {}
        }
    }

    /// The decision that five numbers of the reply tell.
    fn decision(&self, op: Op, now: Timestamp, reply: &Reply) -> Outcome {
        let &Reply { allowed, has_state, charged, state } = reply;
        // An arrival time comes in seconds and microseconds: a thousand years ahead is too far for
        // the script.
        let state = match (&self.machine, state) {
            (AnyMachine::Gcra(_), [seconds, micros, part]) => {
                [seconds.saturating_mul(1_000_000).saturating_add(micros), part, 0]
            }
            (_, state) => state,
        };
        let remote = RemoteStep { allowed, charged, state: has_state.then_some(state) };
        self.machine.remote_decision(op, now, remote)
    }
}

/// How the parts of a call belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each on its own.
    Each,
    /// Hits that are all charged, or none is.
    Together,
}

/// One part of a call: a key as it stands in Redis, the rule and what to do.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: Vec<u8>,
    pub(crate) rule: std::sync::Arc<Rule>,
    pub(crate) op: Op,
}

/// A call of the script.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) parts: Vec<Part>,
    pub(crate) mode: Mode,
    pub(crate) at: Option<Timestamp>,
}

impl Call {
    /// The command. It names the script by its hash.
    ///
    /// `narrow` tells Redis only of the first key, and the script of the others. A node that is
    /// given a slot refuses to run what has several keys while one of them does not exist; all keys
    /// of a call are in one slot.
    pub(crate) fn command(&self, narrow: bool) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(crate::script::hash());
        let named = if narrow { 1 } else { self.parts.len() };
        cmd.arg(named);
        for part in self.parts.iter().take(named) {
            cmd.arg(&part.key[..]);
        }
        cmd.arg(match (self.mode, narrow) {
            (Mode::Each, false) => "each",
            (Mode::Together, false) => "together",
            (Mode::Each, true) => "narrow each",
            (Mode::Together, true) => "narrow together",
        });
        match self.at {
            Some(at) => cmd.arg(at.as_micros()),
            None => cmd.arg(-1),
        };
        for part in &self.parts {
            part.rule.write(part.op, &mut cmd);
        }
        if narrow {
            for part in &self.parts {
                cmd.arg(&part.key[..]);
            }
            cmd.arg(self.parts.len());
        }
        cmd
    }

    /// What came of it. The outer error is of a call that was not sent.
    pub(crate) fn decided(
        &self,
        reply: Result<RedisResult<Value>, Error>,
    ) -> Result<Vec<Outcome>, Error> {
        self.decisions(&reply?.map_err(|error| failure::of_command(&error))?)
    }

    /// What the reply says: a decision for each part.
    fn decisions(&self, reply: &Value) -> Result<Vec<Outcome>, Error> {
        let numbers = numbers(reply).filter(|n| n.len() == 1 + 5 * self.parts.len());
        let numbers = numbers
            .ok_or_else(|| Error::store(format!("not a reply of the script: {reply:?}"), false))?;
        let now = Timestamp::from_micros(numbers[0]);
        let decide =
            |(part, five): (&Part, &[u64])| part.rule.decision(part.op, now, &Reply::of(five));
        Ok(self.parts.iter().zip(numbers[1..].chunks_exact(5)).map(decide).collect())
    }
}

/// Refuses a time that a script cannot reckon with.
pub(crate) fn check_time(at: Option<Timestamp>) -> Result<(), Error> {
    match at {
        Some(at) if at.as_micros() > LATEST => Err(Error::request(format!(
            "time {at}: Redis computes exactly until {} (the year 2112)",
            Timestamp::from_micros(LATEST)
        ))),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, Debug)]
struct Reply {
    allowed: bool,
    has_state: bool,
    charged: u64,
    state: [u64; 3],
}

impl Reply {
    fn of(five: &[u64]) -> Reply {
        let number = |index: usize| five.get(index).copied().unwrap_or(0);
        Reply {
            allowed: number(0) & 1 == 1,
            has_state: number(0) & 2 == 2,
            charged: number(1),
            state: [number(2), number(3), number(4)],
        }
    }
}

fn numbers(reply: &Value) -> Option<Vec<u64>> {
    let Value::Array(items) = reply else { return None };
    let number = |item: &Value| match item {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    items.iter().map(number).collect()
}
