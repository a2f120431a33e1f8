//! The definition as a store: a state for each counter and key, stepped by the pure functions.
//!
//! ```
//! use tollgate::{Timestamp, algorithm::Op};
//! let mut model = tollgate_testkit::model::Model::new(&["1/minute".parse()?]);
//! assert!(model.apply(0, 0, Timestamp::EPOCH, Op::Hit(1)).allowed());
//! assert!(!model.apply(0, 0, Timestamp::EPOCH, Op::Hit(1)).allowed());
//! # Ok::<(), tollgate::LimitError>(())
//! ```

use std::collections::HashMap;
use std::time::Duration;

use tollgate::algorithm::{Act, AnyMachine, AnyState, Op};
use tollgate::{Limit, Outcome, Receipt, Source, Timestamp};

/// A store of states. It identifies limits and keys by their index in the lists of the test.
#[derive(Debug)]
pub struct Model {
    machines: Vec<AnyMachine>,
    /// For each limit the first limit with the same identity: its counter.
    counters: Vec<usize>,
    states: HashMap<(usize, usize), Option<AnyState>>,
}

/// The part of one limit in a hit on several.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The index of the limit.
    pub limit: usize,
    /// The index of the key.
    pub key: usize,
    /// The units that the limit takes.
    pub cost: u64,
}

impl Model {
    /// A model in which every key of these limits is fresh.
    #[must_use]
    pub fn new(limits: &[Limit]) -> Model {
        let first = |limit: &Limit| limits.iter().position(|l| l.identity() == limit.identity());
        Model {
            machines: limits.iter().map(AnyMachine::new).collect(),
            counters: limits.iter().filter_map(first).collect(),
            states: HashMap::new(),
        }
    }

    fn state(&mut self, limit: usize, key: usize) -> (&AnyMachine, &mut Option<AnyState>) {
        let state = self.states.entry((self.counters[limit], key)).or_default();
        (&self.machines[limit], state)
    }

    /// Whether both limits count in the same counter.
    #[must_use]
    pub fn same_counter(&self, a: usize, b: usize) -> bool {
        self.counters[a] == self.counters[b]
    }

    /// The capacity of a limit.
    #[must_use]
    pub fn capacity(&self, limit: usize) -> u64 {
        self.machines[limit].capacity()
    }

    /// Does one operation on a key.
    pub fn apply(&mut self, limit: usize, key: usize, now: Timestamp, op: Op) -> Outcome {
        let (machine, state) = self.state(limit, key);
        machine.apply(state, now, op)
    }

    /// Forgets a key. True if its state was not fresh.
    pub fn reset(&mut self, limit: usize, key: usize, now: Timestamp) -> bool {
        self.apply(limit, key, now, Op::Reset).allowed()
    }

    /// A state that was fresh at the latest time seen may have been forgotten, so earlier times are
    /// not compared. Returns the latest of these times.
    pub(crate) fn forgotten_until(&self, latest: Timestamp) -> Timestamp {
        let fresh_at = |(&(counter, _), state): (&(usize, usize), &Option<AnyState>)| {
            let of_counter = |limit: &usize| self.counters[*limit] == counter;
            let limits = (0..self.machines.len()).filter(of_counter);
            let fresh_at = |limit: usize| self.machines[limit].fresh_at(state.as_ref());
            limits.filter_map(fresh_at).filter(|at| *at <= latest).max()
        };
        self.states.iter().filter_map(fresh_at).max().unwrap_or(Timestamp::EPOCH)
    }

    /// Forgets all keys of a limit.
    pub fn clear(&mut self, limit: usize) {
        let counter = self.counters[limit];
        self.states.retain(|(of, _), _| *of != counter);
    }

    /// Charges all, or lets each be denied by its own rule. A ban comes after the limits that it
    /// watches.
    pub fn together(&mut self, shares: &[Share], now: Timestamp) -> Vec<Outcome> {
        let ask = |s: &Share| self.apply(s.limit, s.key, now, Op::Peek(s.cost)).allowed();
        let fits: Vec<bool> = shares.iter().map(ask).collect();
        let bans: Vec<bool> = shares.iter().map(|s| self.machines[s.limit].is_ban()).collect();
        let denies = |ban: bool| (0..shares.len()).any(|index| bans[index] == ban && !fits[index]);
        let (banned, denied) = (denies(true), denies(false));
        let decide = |(index, s): (usize, &Share)| {
            let (machine, state) = self.state(s.limit, s.key);
            let watched = match machine {
                AnyMachine::Ban(ban) => index - ban.watches()..index,
                _ => index..index,
            };
            let act = match (bans[index], banned, denied) {
                (true, true, _) | (_, false, false) => Act::Op(Op::Hit(s.cost)),
                (false, false, true) => Act::DenyHit(s.cost),
                (true, false, true) if !fits[watched].iter().all(|fits| *fits) => Act::DenyHit(1),
                _ => Act::Op(Op::Peek(s.cost)),
            };
            machine.act(state, now, act)
        };
        shares.iter().enumerate().map(decide).collect()
    }
}

/// Every field of a decision.
#[derive(Debug, PartialEq)]
struct Answer {
    allowed: bool,
    limit: u64,
    remaining: u64,
    used: u64,
    retry_after: Option<Duration>,
    /// When one more unit passes, after an allowed step that left nothing.
    next_unit_at: Option<Timestamp>,
    reset_after: Duration,
    expires_at: Option<Timestamp>,
    charged: u64,
    now: Timestamp,
    source: Source,
    /// A receipt that charged nothing is not compared.
    receipt: Option<Receipt>,
}

impl From<&Outcome> for Answer {
    fn from(decision: &Outcome) -> Answer {
        Answer {
            allowed: decision.allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            used: decision.used(),
            retry_after: decision.retry_after(),
            next_unit_at: next_unit_at(decision),
            reset_after: decision.reset_after(),
            expires_at: decision.expires_at(),
            charged: decision.charged(),
            now: decision.now(),
            source: decision.source(),
            receipt: Some(decision.receipt()).filter(|receipt| receipt.units > 0),
        }
    }
}

fn next_unit_at(decision: &Outcome) -> Option<Timestamp> {
    let left_nothing = decision.allowed() && decision.remaining() == 0;
    decision.fields().retry_at.filter(|_| left_nothing)
}

/// The headline as the contract defines it: of the denials the one with the longest wait, else the
/// outcome with the least remaining; the first of equals. A ban is the headline if and only if it
/// denies.
#[must_use]
pub fn headline(outcomes: &[Outcome]) -> Option<&Outcome> {
    if let Some(banned) = outcomes.iter().find(|outcome| outcome.banned()) {
        return Some(banned);
    }
    let wait = |d: &Outcome| d.retry_after().unwrap_or(Duration::MAX);
    let mut best: Option<&Outcome> = None;
    for outcome in outcomes.iter().filter(|outcome| !outcome.is_ban()) {
        let better = match best {
            None => true,
            Some(best) if outcome.allowed() != best.allowed() => best.allowed(),
            Some(best) if outcome.allowed() => outcome.remaining() < best.remaining(),
            Some(best) => wait(outcome) > wait(best),
        };
        if better {
            best = Some(outcome);
        }
    }
    best
}

/// Compares the decisions of a store with those of the definition, in every field.
///
/// # Errors
/// Both lists, if they differ.
pub fn same(got: &[Outcome], wanted: &[Outcome]) -> Result<(), String> {
    let got: Vec<Answer> = got.iter().map(Answer::from).collect();
    let wanted: Vec<Answer> = wanted.iter().map(Answer::from).collect();
    if got == wanted { Ok(()) } else { Err(format!("got    {got:?}\nwanted {wanted:?}")) }
}

/// Compares all fields but the source: a remembered denial and one of the store.
pub(crate) fn same_but_source(got: &Outcome, wanted: &Outcome) -> Result<(), String> {
    let got = Answer { source: wanted.source(), ..Answer::from(got) };
    let wanted = Answer::from(wanted);
    if got == wanted { Ok(()) } else { Err(format!("got    {got:?}\nwanted {wanted:?}")) }
}
