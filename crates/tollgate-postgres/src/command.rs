//! The arguments and the result of the SQL function `ask`: see `sql/ask.sql`.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use tokio_postgres::SimpleQueryRow;
use tollgate::algorithm::{AnyMachine, MAX_UNITS, Op, RemoteStep};
use tollgate::calendar::Edges;
use tollgate::{Algorithm, Clock, Error, Limit, Outcome, Receipt, Timestamp};

use crate::schema::VERSION;

/// The latest time that stays exact when a limit's longest span is added: the year 75,000.
const LATEST: u64 = 1 << 61;

/// Numbers in a result row, without the time.
const NUMBERS: usize = 5;

/// Flags of a step.
const ALLOWED: u64 = 1;
const HAS_STATE: u64 = 2;
const NOT_A_STATE: u64 = 4;
const LOCKED: u64 = 8;
const OTHER_CLOCK: u64 = 32;

/// The flags of the only row when nothing was executed and the batch must be sent again.
const AGAIN: &str = "16";

/// Verbs of steps that no [`Op`] has.
const TRY: u8 = 8;
const TOGETHER: u8 = 9;

/// A limit as the function takes it.
#[derive(Debug)]
pub(crate) struct Rule {
    machine: AnyMachine,
    algorithm: Algorithm,
    quota: u64,
    /// Microseconds.
    period: u64,
    burst: u64,
    charge_denied: bool,
    /// The edges of a calendar limit, by the clock of this machine.
    edges: Option<Edges>,
}

/// One part of a call: a key of the table, the rule and the operation.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: Vec<u8>,
    pub(crate) rule: Arc<Rule>,
    pub(crate) op: Op,
}

/// Parts that are decided in one step: a single one, or several hits all or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) parts: Vec<Part>,
    pub(crate) at: Option<Timestamp>,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallResult {
    Decided(Vec<Outcome>),
    /// Nothing was executed: `hits` cannot decide it, `ask` can.
    NotPlain,
    /// Nothing was executed: another session holds one of its rows.
    Locked,
    Failed(Error),
}

impl Rule {
    pub(crate) fn new(limit: &Limit, clock: &Arc<dyn Clock>) -> Rule {
        let machine = AnyMachine::new(limit);
        // A ban sends how many limits it watches, and whether attempts extend it.
        let (burst, charge_denied) = match &machine {
            AnyMachine::Ban(ban) => (ban.watches() as u64, ban.pushes()),
            _ => (limit.burst(), limit.charge_denied()),
        };
        Rule {
            machine,
            algorithm: limit.algorithm(),
            quota: limit.quota(),
            period: u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX),
            burst,
            charge_denied,
            edges: Edges::by(limit, clock),
        }
    }

    pub(crate) fn machine(&self) -> &AnyMachine {
        &self.machine
    }

    pub(crate) fn quota(&self) -> u64 {
        self.quota
    }

    /// The largest cost that can ever be allowed.
    pub(crate) fn capacity(&self) -> u64 {
        self.machine.capacity()
    }

    /// The time that units are worth, for algorithms that count time.
    pub(crate) fn worth(&self, units: u64) -> (u64, u64) {
        match &self.machine {
            AnyMachine::Gcra(gcra) => gcra.time_of(units),
            _ => (0, 0),
        }
    }

    /// The four numbers that depend on the algorithm: the times that the units and the burst are
    /// worth, the edges of calendar windows, or the lengths of the first and the longest ban.
    fn numbers(&self, units: u64, at: Option<Timestamp>) -> [u64; 4] {
        if let Some(edges) = &self.edges {
            return edges.at(at);
        }
        if let AnyMachine::Ban(ban) = &self.machine {
            let [first, longest] = ban.lengths();
            return [first, 0, longest, 0];
        }
        let ((worth, part), (tolerance, rest)) = (self.worth(units), self.worth(self.burst));
        [worth, part, tolerance, rest]
    }

    /// The decision in the five numbers of a result row.
    fn decision(
        &self,
        op: Op,
        now: Timestamp,
        [flags, charged, a, b, c]: [u64; NUMBERS],
    ) -> Outcome {
        let state = (flags & HAS_STATE != 0).then_some([a, b, c]);
        self.machine.remote_decision(
            op,
            now,
            RemoteStep { allowed: flags & ALLOWED != 0, charged, state },
        )
    }
}

impl Part {
    /// The number of the operation, its units, and the receipt of a refund.
    fn verb(&self) -> (u8, u64, Option<Receipt>) {
        let is_ban = self.rule.machine.is_ban();
        match if is_ban { self.op.without_units() } else { self.op } {
            Op::Hit(cost) => (1, cost, None),
            Op::Peek(cost) => (2, cost, None),
            Op::Take(cost) => (3, cost, None),
            Op::Charge(units) => (4, units, None),
            Op::Refund(receipt) => (5, receipt.units, Some(receipt)),
            Op::RefundUnits(units) => (5, units, None),
            Op::Set(units) => (6, units, None),
            Op::Reset => (7, 0, None),
        }
    }

    /// Whether it can create a state. A hit that can never be allowed creates none unless denied
    /// hits are charged.
    fn makes(&self) -> bool {
        match self.op {
            // The denial of another limit may be counted.
            Op::Hit(_) if self.rule.machine.is_ban() => true,
            Op::Hit(cost) => cost > 0 && (self.rule.charge_denied || cost <= self.rule.capacity()),
            _ if self.rule.machine.is_ban() => false,
            Op::Take(units) | Op::Charge(units) => units > 0,
            Op::Set(_) => true,
            _ => false,
        }
    }
}

/// The arguments of the function for a batch of calls: one list each.
#[derive(Debug, Default)]
struct Arguments {
    lists: [String; 16],
    seen: HashSet<usize>,
}

impl Arguments {
    fn push(&mut self, place: usize, part: &Part, verb: u8, at: Option<Timestamp>) {
        let rule = &part.rule;
        let (_, units, receipt) = part.verb();
        let units = units.min(MAX_UNITS);
        let [worth, worth_part, tolerance, tolerance_part] = rule.numbers(units, at);
        // -1: a refund without a receipt, of the newest units.
        let none = |number: Option<u64>| {
            Item::Number(number.map_or(-1, |number| number.min(LATEST * 2 - 1) as i64))
        };
        let flag = |flag: bool| if flag { Item::True } else { Item::False };
        let number = |number: u64| Item::Number(number as i64);
        let items: [Item; 16] = [
            number(place as u64),
            flag(!self.seen.insert(place)),
            number(verb.into()),
            number(rule.algorithm.number().into()),
            number(units),
            none(at.map(Timestamp::as_micros)),
            number(rule.quota),
            number(rule.period),
            number(rule.burst),
            flag(rule.charge_denied),
            number(worth),
            number(worth_part),
            number(tolerance),
            number(tolerance_part),
            none(receipt.map(|receipt| receipt.at.as_micros())),
            none(receipt.map(|receipt| receipt.mark)),
        ];
        for (list, item) in self.lists.iter_mut().zip(items) {
            if !list.is_empty() {
                list.push(',');
            }
            let _ = match item {
                Item::Number(number) => write!(list, "{number}"),
                Item::True => list.write_char('t'),
                Item::False => list.write_char('f'),
            };
        }
    }
}

/// An element of a list.
enum Item {
    Number(i64),
    True,
    False,
}

/// The statement that decides all calls in order.
pub(crate) fn statement<'a>(
    schema: &str,
    skip: bool,
    calls: impl Iterator<Item = &'a Call> + Clone,
) -> String {
    let mut keys: BTreeMap<&[u8], (usize, bool)> = BTreeMap::new();
    for part in calls.clone().flat_map(|call| &call.parts) {
        keys.entry(&part.key).or_default().1 |= part.makes();
    }
    let (mut names, mut makes) = (String::new(), String::new());
    for (index, (key, (place, may))) in keys.iter_mut().enumerate() {
        *place = index + 1;
        push_name(key, &mut names);
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(makes, "{comma}{}", if *may { "t" } else { "f" });
    }
    let mut arguments = Arguments::default();
    for Call { parts, at } in calls {
        let place = |part: &Part| keys.get(&part.key[..]).map_or(0, |(place, _)| *place);
        match &parts[..] {
            [part] => arguments.push(place(part), part, part.verb().0, *at),
            // First test all, then charge all or refuse all.
            parts => {
                for (verb, part) in [TRY, TOGETHER]
                    .iter()
                    .flat_map(|verb| parts.iter().map(move |part| (*verb, part)))
                {
                    arguments.push(place(part), part, verb, *at);
                }
            }
        }
    }
    let mut text =
        format!("SELECT*FROM {schema}.ask({VERSION},{skip},E'{{{names}}}','{{{makes}}}'");
    for list in &arguments.lists {
        let _ = write!(text, ",'{{{list}}}'");
    }
    text.push(')');
    text
}

/// Appends a key to a list of keys inside of `E'{…}'`.
pub(crate) fn push_name(key: &[u8], names: &mut String) {
    if !names.is_empty() {
        names.push(',');
    }
    // Backslashes are escaped twice: for the string, and for the list in it.
    names.push_str("\"\\\\\\\\x");
    hex(key, names);
    names.push('"');
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

/// The results of the calls of a statement, in order.
pub(crate) enum Answer<'a> {
    /// The rows that `ask` returned: one for each step that does more than test.
    Steps(std::slice::Iter<'a, SimpleQueryRow>),
    /// Of plain hits, one decision for each call.
    Hits(std::vec::IntoIter<Option<Outcome>>),
}

impl<'a> Answer<'a> {
    /// `None` if nothing was executed and the batch must be sent again.
    pub(crate) fn steps(rows: &'a [SimpleQueryRow]) -> Option<Answer<'a>> {
        let again = rows.first().and_then(|row| row.get(0)) == Some(AGAIN);
        (!again).then(|| Answer::Steps(rows.iter()))
    }

    /// The result of the next call.
    pub(crate) fn next(&mut self, call: &Call) -> CallResult {
        match self {
            Answer::Steps(rows) => stepped(rows, call),
            Answer::Hits(decisions) => match decisions.next().flatten() {
                Some(decision) => CallResult::Decided(vec![decision]),
                None => CallResult::NotPlain,
            },
        }
    }
}

fn stepped(rows: &mut std::slice::Iter<'_, SimpleQueryRow>, call: &Call) -> CallResult {
    let mut decisions = Vec::with_capacity(call.parts.len());
    let (mut spoiled, mut failed) = (0, None);
    for part in &call.parts {
        match rows
            .next()
            .ok_or_else(|| Error::store("fewer rows than steps", false))
            .and_then(numbers)
        {
            Ok([flags, charged, a, b, c, clock]) => {
                spoiled |= flags & (LOCKED | NOT_A_STATE | OTHER_CLOCK);
                let now = call.at.unwrap_or(Timestamp::from_micros(clock));
                decisions.push(part.rule.decision(part.op, now, [flags, charged, a, b, c]));
            }
            Err(error) => failed = Some(error),
        }
    }
    match (failed, spoiled) {
        (Some(error), _) => CallResult::Failed(error),
        (None, 0) => CallResult::Decided(decisions),
        (None, LOCKED) => CallResult::Locked,
        (None, spoiled) if spoiled & OTHER_CLOCK != 0 => CallResult::Failed(Error::store(
            "the clock of this machine or of the server is wrong: the server's time is in none of \
             the three calendar windows around this machine's time",
            true,
        )),
        _ => CallResult::Failed(Error::store(
            "the row of the key is not a state of this limit",
            false,
        )),
    }
}

/// The numbers of a row; 0 for absent ones. A row that is not a state may have any numbers.
fn numbers(row: &SimpleQueryRow) -> Result<[u64; NUMBERS + 1], Error> {
    let mut numbers = [0; NUMBERS + 1];
    for (index, number) in numbers.iter_mut().enumerate() {
        let text = row.try_get(index).map_err(|error| Error::store(error.to_string(), false))?;
        *number = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    }
    Ok(numbers)
}

/// Refuses a time with which the function cannot compute exactly.
pub(crate) fn check_time(at: Option<Timestamp>) -> Result<(), Error> {
    match at {
        Some(at) if at.as_micros() > LATEST => Err(Error::request(format!(
            "time {at}: PostgreSQL reckons exactly until {} (the year 75,000)",
            Timestamp::from_micros(LATEST)
        ))),
        _ => Ok(()),
    }
}
