//! Arguments and replies of the script. `lua/main.lua` and the head of each algorithm's file in
//! `lua/` list the arguments that it reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tollgate::algorithm::{AnyMachine, MAX_UNITS, Op, RemoteStep, gcra};
use tollgate::calendar::Edges;
use tollgate::{Algorithm, Clock, Error, Limit, Outcome, Receipt, Timestamp};

use crate::failure;
use crate::hits::{self, Hits};

/// Times up to here stay exact in a script, together with a period of a hundred years: the year
/// 2112.
pub(crate) const LATEST: u64 = 1 << 52;

/// A limit in the form that the script expects.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) machine: AnyMachine,
    pub(crate) algorithm: Algorithm,
    pub(crate) quota: u64,
    /// Microseconds.
    pub(crate) period: u64,
    pub(crate) burst: u64,
    pub(crate) charge_denied: bool,
    /// The edges of a calendar limit, by the clock of this machine.
    edges: Option<Edges>,
    /// Whether plain hits go to the script in the form of `hits.rs`.
    pub(crate) exact_hits: bool,
}

impl Rule {
    pub(crate) fn new(limit: &Limit, clock: &Arc<dyn Clock>) -> Rule {
        let machine = AnyMachine::new(limit);
        Rule {
            exact_hits: hits::is_exact(&machine),
            machine,
            algorithm: limit.algorithm(),
            quota: limit.quota(),
            period: u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX),
            burst: limit.burst(),
            charge_denied: limit.charge_denied(),
            edges: Edges::by(limit, clock),
        }
    }

    /// The arguments of one operation.
    fn write(&self, op: Op, at: Option<Timestamp>, cmd: &mut Cmd) {
        let op = if self.machine.is_ban() { op.without_units() } else { op };
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
        if let Some(edges) = &self.edges {
            cmd.arg(self.quota).arg(u8::from(self.charge_denied)).arg(&edges.at(at)[..]);
            return;
        }
        match &self.machine {
            AnyMachine::Gcra(gcra) => self.write_gcra(gcra, verb, units, cmd),
            AnyMachine::TokenBucket(_) | AnyMachine::LeakyBucket(_) => {
                cmd.arg(self.quota).arg(self.period).arg(self.burst);
            }
            AnyMachine::SlidingWindow(_) | AnyMachine::MovingWindow(_) => {
                cmd.arg(self.quota).arg(self.period);
            }
            AnyMachine::Ban(ban) => {
                let [length, longest] = ban.lengths();
                cmd.arg(self.quota).arg(self.period).arg(length).arg(longest);
                cmd.arg(u8::from(ban.pushes())).arg(ban.watches());
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
    pub(crate) rule: Arc<Rule>,
    pub(crate) op: Op,
}

/// A call of the script.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    parts: Vec<Part>,
    form: Form,
    at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
enum Form {
    /// Plain hits, each on its own.
    Hits(Hits),
    /// Any operations.
    Steps(Mode),
}

impl Call {
    pub(crate) fn steps(parts: Vec<Part>, mode: Mode, at: Option<Timestamp>) -> Call {
        Call { parts, form: Form::Steps(mode), at }
    }

    /// All parts are plain hits.
    pub(crate) fn hits(parts: Vec<Part>, at: Option<Timestamp>) -> Call {
        Call { form: Form::Hits(Hits::new(&parts)), parts, at }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Plain hits as a call for each key, with the indexes of the hits. `None` for other calls: they
    /// stay together.
    pub(crate) fn by_key(&self) -> Option<Vec<(Vec<usize>, Call)>> {
        let Form::Hits(_) = self.form else { return None };
        let mut keys: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (index, part) in self.parts.iter().enumerate() {
            keys.entry(&part.key).or_default().push(index);
        }
        let call = |indexes: Vec<usize>| {
            let parts = indexes.iter().map(|index| self.parts[*index].clone()).collect();
            (indexes, Call::hits(parts, self.at))
        };
        Some(keys.into_values().map(call).collect())
    }

    pub(crate) fn is_hits(&self) -> bool {
        matches!(self.form, Form::Hits(_))
    }

    /// The keys that it names to Redis.
    pub(crate) fn keys(&self) -> Vec<&[u8]> {
        match &self.form {
            Form::Hits(hits) => hits.firsts(&self.parts).map(|part| &part.key[..]).collect(),
            Form::Steps(_) => self.parts.iter().map(|part| &part.key[..]).collect(),
        }
    }

    /// The command. It names the script by its hash.
    ///
    /// With `narrow`, the command declares only the first key to Redis, and passes the others to
    /// the script as arguments. While a node imports a slot, it refuses commands with several
    /// declared keys if one of them does not exist. All keys of a call are in one slot. Plain hits
    /// are divided instead: see [`Call::by_key`].
    pub(crate) fn command(&self, narrow: bool) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(crate::script::hash());
        let keys = self.keys();
        let named = if narrow { 1 } else { keys.len() };
        cmd.arg(named);
        for key in keys.iter().take(named) {
            cmd.arg(*key);
        }
        cmd.arg(match (&self.form, narrow) {
            (Form::Hits(_), _) => "hits",
            (Form::Steps(Mode::Each), false) => "each",
            (Form::Steps(Mode::Together), false) => "together",
            (Form::Steps(Mode::Each), true) => "narrow each",
            (Form::Steps(Mode::Together), true) => "narrow together",
        });
        match self.at {
            Some(at) => cmd.arg(at.as_micros()),
            None => cmd.arg(-1),
        };
        match &self.form {
            Form::Hits(hits) => hits.write(&self.parts, &mut cmd),
            Form::Steps(_) => {
                self.parts.iter().for_each(|part| part.rule.write(part.op, self.at, &mut cmd));
            }
        }
        if narrow {
            for key in &keys {
                cmd.arg(*key);
            }
            cmd.arg(keys.len());
        }
        cmd
    }

    /// Reads the reply: a decision for each part, or an error about its key. The outer error is
    /// that of a call that was not sent or that failed as a whole.
    pub(crate) fn decided(
        &self,
        reply: Result<RedisResult<Value>, Error>,
    ) -> Result<Vec<Result<Outcome, Error>>, Error> {
        let reply = reply?.map_err(|error| failure::of_command(&error))?;
        let decisions = match &self.form {
            Form::Hits(hits) => hits.decisions(&self.parts, &reply),
            Form::Steps(_) => self.decisions(&reply),
        };
        decisions
            .ok_or_else(|| Error::store(format!("not a reply of the script: {reply:?}"), false))
    }

    fn decisions(&self, reply: &Value) -> Option<Vec<Result<Outcome, Error>>> {
        let numbers = numbers(reply).filter(|n| n.len() == 1 + 5 * self.parts.len())?;
        let now = Timestamp::from_micros(numbers[0]);
        let decide =
            |(part, five): (&Part, &[u64])| Ok(part.rule.decision(part.op, now, &Reply::of(five)));
        Some(self.parts.iter().zip(numbers[1..].chunks_exact(5)).map(decide).collect())
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
