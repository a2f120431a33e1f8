//! Plain hits, many in one call: see `lua/hits.lua`.
//!
//! A plain hit costs at least one unit, could pass on an unused key, and is on GCRA or a fixed
//! window. Nearly all hits are. The script returns the states before the
//! hits, and the machines compute from them the decisions that the script has made.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Cmd, Value};
use tollgate::algorithm::fixed_window::FixedWindowState;
use tollgate::algorithm::fixed_window_per_key::FixedWindowPerKeyState;
use tollgate::algorithm::gcra::GcraState;
use tollgate::algorithm::{AnyMachine, AnyState, Op};
use tollgate::{Error, Outcome, Timestamp};

use crate::command::{LATEST, Part, Rule};

/// The hits of a call in the form in which the script gets them.
#[derive(Clone, Debug)]
pub(crate) struct Hits {
    runs: Vec<Run>,
    /// The run of each hit.
    run_of: Vec<usize>,
}

/// Hits of one cost on one key by one rule, with no other hit on the key between them.
#[derive(Clone, Debug)]
struct Run {
    /// The index of its first hit.
    first: usize,
    hits: usize,
}

/// Whether the script can decide plain hits of this limit: all its sums stay exact.
pub(crate) fn is_exact(machine: &AnyMachine) -> bool {
    match machine {
        AnyMachine::Gcra(gcra) => gcra.time_of(machine.capacity()).0 < LATEST,
        AnyMachine::FixedWindow(_) | AnyMachine::FixedWindowPerKey(_) => true,
        _ => false,
    }
}

impl Part {
    pub(crate) fn is_plain_hit(&self) -> bool {
        self.rule.exact_hits
            && matches!(self.op, Op::Hit(cost) if (1..=self.rule.machine.capacity()).contains(&cost))
    }

    fn cost(&self) -> u64 {
        if let Op::Hit(cost) = self.op { cost } else { 0 }
    }

    /// Whether both hits have the same terms, so that the script needs them only once.
    fn has_terms_of(&self, other: &Part) -> bool {
        self.cost() == other.cost() && Arc::ptr_eq(&self.rule, &other.rule)
    }
}

impl Rule {
    /// Writes the terms of a hit, as `lua/hits.lua` expects them.
    fn write_terms(&self, cost: u64, cmd: &mut Cmd) {
        cmd.arg(self.algorithm.as_str()).arg(self.quota);
        if let AnyMachine::Gcra(gcra) = &self.machine {
            for (micros, part) in [gcra.time_of(self.burst), gcra.time_of(cost)] {
                cmd.arg(micros).arg(part);
            }
        } else {
            cmd.arg(self.period).arg(cost).arg(u8::from(self.charge_denied));
        }
    }
}

impl Hits {
    pub(crate) fn new(parts: &[Part]) -> Hits {
        let mut runs: Vec<Run> = Vec::with_capacity(parts.len());
        // The last run of each key: hits on one key stay in order.
        let mut last: HashMap<&[u8], usize> = HashMap::with_capacity(parts.len());
        let run_of = parts.iter().enumerate().map(|(index, part)| {
            let new = runs.len();
            let run = last.entry(&part.key).or_insert(new);
            match runs.get_mut(*run) {
                Some(known) if part.has_terms_of(&parts[known.first]) => known.hits += 1,
                _ => {
                    *run = new;
                    runs.push(Run { first: index, hits: 1 });
                }
            }
            *run
        });
        let run_of = run_of.collect();
        Hits { runs, run_of }
    }

    /// The parts that name the keys of the call.
    pub(crate) fn firsts<'p>(&self, parts: &'p [Part]) -> impl Iterator<Item = &'p Part> {
        self.runs.iter().map(|run| &parts[run.first])
    }

    /// Writes the arguments that follow the mode.
    pub(crate) fn write(&self, parts: &[Part], cmd: &mut Cmd) {
        let mut before: Option<&Part> = None;
        for run in &self.runs {
            let part = &parts[run.first];
            if !before.is_some_and(|before| part.has_terms_of(before)) {
                part.rule.write_terms(part.cost(), cmd);
            }
            before = Some(part);
            cmd.arg(run.hits);
        }
    }

    /// What the reply says: a decision for each part, or an error about its key. `None` if it is no
    /// reply of the script.
    pub(crate) fn decisions(
        &self,
        parts: &[Part],
        reply: &Value,
    ) -> Option<Vec<Result<Outcome, Error>>> {
        let Value::Array(items) = reply else { return None };
        let [Value::Int(now), values @ ..] = &items[..] else { return None };
        if values.len() != self.runs.len() {
            return None;
        }
        let now = Timestamp::from_micros(u64::try_from(*now).ok()?);
        let state = |(part, value): (&Part, &Value)| state(&part.rule.machine, value);
        let mut states: Vec<_> = self.firsts(parts).zip(values).map(state).collect();
        let decide = |(part, run): (&Part, &usize)| match &mut states[*run] {
            Some(state) => Ok(part.rule.machine.apply(state, now, part.op)),
            None => Err(Error::store(
                format!("the value of {} is not a state of this limit", part.key.escape_ascii()),
                false,
            )),
        };
        Some(parts.iter().zip(&self.run_of).map(decide).collect())
    }
}

/// The state of a value in Redis; `None` if it is not one of this machine.
#[expect(clippy::option_option, reason = "a key without a value has a state: none")]
fn state(machine: &AnyMachine, value: &Value) -> Option<Option<AnyState>> {
    let text = match value {
        Value::Nil => return Some(None),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?,
        _ => return None,
    };
    let (first, second) = text.split_once(' ').unwrap_or((text, "0"));
    let (first, second) = (first.parse::<u64>().ok()?, second.parse::<u64>().ok()?);
    let time = Timestamp::from_micros(first);
    Some(Some(match machine {
        AnyMachine::Gcra(_) => AnyState::Gcra(GcraState { tat: time, part: second }),
        AnyMachine::FixedWindow(_) => {
            AnyState::FixedWindow(FixedWindowState { window: first, count: second })
        }
        AnyMachine::FixedWindowPerKey(_) => {
            AnyState::FixedWindowPerKey(FixedWindowPerKeyState { start: time, count: second })
        }
        _ => return None,
    }))
}
