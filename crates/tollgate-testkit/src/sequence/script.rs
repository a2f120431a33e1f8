//! Random sequences as JSON, with the answers of the definition: for clients in other languages,
//! which replay them on a store and compare every field.

use std::fmt::Write as _;

use tollgate::algorithm::Op;
use tollgate::{Limit, Outcome, Policy, Receipt, Timestamp};

use super::case::{Amount, Call, Case, LIMITS, On, What};
use super::keys::AnyKey;
use crate::ground::START;
use crate::model::{Model, Share, headline};
use crate::random::Random;

/// Writes random sequences of calls with the answers of the definition.
///
/// Every case has its own limits, and must be replayed in its own namespace without remembered
/// denials. `at` is the time of a call in microseconds since 1970. Keys are numbers: see
/// `clients/python/tests/test_conformance.py`. The calls of a case:
///
/// | `call` | answer |
/// | --- | --- |
/// | `hit`, `peek`, `take`, `charge`, `set`, `correct` of `units` on a `limit` and a `key` | `answer` |
/// | `refund` of the decision number `of`, in the order of the answers of all calls | `answer` |
/// | `each`: hits of cost 1 on many `keys` | `answers` |
/// | `all`: hits on `items` of (limit, key, cost), all or none | `answers`, `headline` |
/// | `usage`, `reset`, `clear` | `value` |
/// | `policy_hit`, `policy_peek`, `policy_charge`, `policy_set`: the same on the policy of the limits `policy` | `answers`, `headline` |
/// | `policy_refund` of the policy's hit number `of` | `answers` |
/// | `policy_reset` | `value` |
///
/// ```
/// let json = tollgate_testkit::sequences_as_json(7, 1);
/// assert!(json.starts_with(r#"[{"limits":["#));
/// assert_eq!(json, tollgate_testkit::sequences_as_json(7, 1));
/// ```
#[must_use]
pub fn sequences_as_json(seed: u64, cases: usize) -> String {
    let mut random = Random::new(seed);
    let scripts: Vec<String> =
        (0..cases).map(|_| Script::of(&Case::any(&mut random)).json()).collect();
    format!("[{}]\n", scripts.join(",\n"))
}

struct Script {
    limits: Vec<Limit>,
    policy: Vec<usize>,
    model: Model,
    /// What a later call can refund.
    decided: Vec<(On, Receipt)>,
    charged: Vec<(usize, Vec<Receipt>)>,
    steps: Vec<String>,
}

impl Script {
    fn of(case: &Case) -> Script {
        let limits: Vec<Limit> =
            case.limits.iter().map(|index| crate::ground::limit(LIMITS[*index])).collect();
        let model = Model::new(&limits);
        let first = |i: &usize| !(0..*i).any(|earlier| model.same_counter(earlier, *i));
        let policy: Vec<usize> = (0..limits.len()).filter(first).collect();
        debug_assert!(Policy::new(policy.iter().map(|i| limits[*i].clone())).is_ok());
        let (decided, charged, steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut script = Script { limits, policy, model, decided, charged, steps };
        let (mut now, mut latest) = (START, START);
        for (tick, call) in &case.calls {
            let next = tick.from(now);
            // Time goes back, but not to before something may have been forgotten.
            now = if next < now {
                next.max(script.model.forgotten_until(latest)).min(now)
            } else {
                next
            };
            latest = latest.max(now);
            script.call(now, call);
        }
        script
    }

    fn json(&self) -> String {
        let limits: Vec<String> = self.limits.iter().map(|limit| format!("\"{limit}\"")).collect();
        format!(
            "{{\"limits\":[{}],\"policy\":{:?},\"calls\":[\n{}]}}",
            limits.join(","),
            self.policy,
            self.steps.join(",\n")
        )
    }

    fn step(&mut self, now: Timestamp, call: &str, fields: &str) {
        let at = now.as_micros();
        self.steps.push(format!("{{\"at\":{at},\"call\":\"{call}\",{fields}}}"));
    }

    fn call(&mut self, now: Timestamp, call: &Call) {
        match call {
            Call::Each(asks) => {
                for (on, what) in asks {
                    self.one(now, *on, *what);
                }
            }
            Call::Refund(index) => {
                let Some(of) = self.decided.len().checked_sub(index + 1) else { return };
                let (on, receipt) = self.decided[of];
                let answer = self.apply(now, on, Op::Refund(receipt));
                self.step(now, "refund", &format!("{},\"of\":{of},\"answer\":{answer}", place(on)));
            }
            Call::HitEach(limit, keys) => {
                let hit =
                    |key: &usize| self.apply(now, On { limit: *limit, key: *key }, Op::Hit(1));
                let answers: Vec<String> = keys.iter().map(hit).collect();
                let answers = answers.join(",");
                let fields = format!("\"limit\":{limit},\"keys\":{keys:?},\"answers\":[{answers}]");
                self.step(now, "each", &fields);
            }
            Call::Together(items) => self.together(now, items),
            Call::Policy(key, amount) => self.policy_hit(now, *key, *amount),
            Call::PolicyEach(key, what) => self.policy_each(now, *key, *what),
            Call::PolicyRefund(index) => self.policy_refund(now, *index),
            Call::PolicyReset(key) => {
                let reset = |limit: &usize| self.model.reset(*limit, *key, now);
                let value = self.policy.iter().map(reset).fold(false, |any, one| any | one);
                self.step(now, "policy_reset", &format!("\"key\":{key},\"value\":{value}"));
            }
            Call::Reset(on) => {
                let value = self.model.reset(on.limit, on.key, now);
                self.step(now, "reset", &format!("{},\"value\":{value}", place(*on)));
            }
            Call::Usage(on) => {
                let value = self.model.apply(on.limit, on.key, now, Op::Peek(1)).used();
                self.step(now, "usage", &format!("{},\"value\":{value}", place(*on)));
            }
            Call::Clear(limit) => {
                self.model.clear(*limit);
                self.step(now, "clear", &format!("\"limit\":{limit},\"value\":null"));
            }
        }
    }

    /// The answer of the definition. It can be refunded later.
    fn apply(&mut self, now: Timestamp, on: On, op: Op) -> String {
        let outcome = self.model.apply(on.limit, on.key, now, op);
        self.decided.push((on, outcome.receipt()));
        answer(&outcome)
    }

    fn one(&mut self, now: Timestamp, on: On, what: What) {
        let op = what.op(self.model.capacity(on.limit));
        let Some((name, units)) = named(op) else { return };
        let answer = self.apply(now, on, op);
        self.step(now, name, &format!("{},\"units\":{units},\"answer\":{answer}", place(on)));
    }

    fn together(&mut self, now: Timestamp, items: &[(On, Amount)]) {
        let mut shares: Vec<Share> = Vec::new();
        for (on, amount) in items {
            let twice = |s: &Share| s.key == on.key && self.model.same_counter(s.limit, on.limit);
            if !shares.iter().any(twice) {
                let cost = amount.of(self.model.capacity(on.limit));
                shares.push(Share { limit: on.limit, key: on.key, cost });
            }
        }
        let outcomes = self.model.together(&shares, now);
        let item = |s: &Share| format!("[{},{},{}]", s.limit, s.key, s.cost);
        let items: Vec<String> = shares.iter().map(item).collect();
        let fields = format!("\"items\":[{}],{}", items.join(","), answers(&outcomes));
        self.step(now, "all", &fields);
    }

    fn shares_of_policy(&self, key: usize, units: impl Fn(u64) -> u64) -> Vec<Share> {
        let least = self.policy.iter().map(|limit| self.model.capacity(*limit)).min().unwrap_or(1);
        let share = |limit: &usize| Share { limit: *limit, key, cost: units(least) };
        self.policy.iter().map(share).collect()
    }

    fn policy_hit(&mut self, now: Timestamp, key: usize, amount: Amount) {
        let shares = self.shares_of_policy(key, |capacity| amount.of(capacity));
        let outcomes = self.model.together(&shares, now);
        let units = shares[0].cost;
        let fields = format!("\"key\":{key},\"units\":{units},{}", answers(&outcomes));
        self.step(now, "policy_hit", &fields);
        self.charged.push((key, outcomes.iter().map(Outcome::receipt).collect()));
    }

    fn policy_each(&mut self, now: Timestamp, key: usize, what: What) {
        let least = self.policy.iter().map(|limit| self.model.capacity(*limit)).min().unwrap_or(1);
        let op = what.op(least);
        let (Op::Peek(_) | Op::Charge(_) | Op::Set(_), Some((name, units))) = (op, named(op))
        else {
            return;
        };
        let apply = |limit: &usize| self.model.apply(*limit, key, now, op);
        let outcomes: Vec<Outcome> = self.policy.iter().map(apply).collect();
        let fields = format!("\"key\":{key},\"units\":{units},{}", answers(&outcomes));
        self.step(now, &format!("policy_{name}"), &fields);
    }

    fn policy_refund(&mut self, now: Timestamp, index: usize) {
        let Some(of) = self.charged.len().checked_sub(index + 1) else { return };
        let (key, receipts) = self.charged[of].clone();
        let refund = |(limit, receipt): (&usize, &Receipt)| {
            self.model.apply(*limit, key, now, Op::Refund(*receipt))
        };
        let outcomes: Vec<Outcome> = self.policy.iter().zip(&receipts).map(refund).collect();
        let fields = format!("\"key\":{key},\"of\":{of},{}", answers(&outcomes));
        self.step(now, "policy_refund", &fields);
    }
}

fn named(op: Op) -> Option<(&'static str, u64)> {
    Some(match op {
        Op::Hit(units) => ("hit", units),
        Op::Peek(units) => ("peek", units),
        Op::Take(units) => ("take", units),
        Op::Charge(units) => ("charge", units),
        Op::Set(units) => ("set", units),
        Op::RefundUnits(units) => ("correct", units),
        _ => return None,
    })
}

fn place(on: On) -> String {
    debug_assert!(on.key < AnyKey::COUNT);
    format!("\"limit\":{},\"key\":{}", on.limit, on.key)
}

fn answers(outcomes: &[Outcome]) -> String {
    let all: Vec<String> = outcomes.iter().map(answer).collect();
    let shown = headline(outcomes).map_or_else(|| "null".to_owned(), answer);
    format!("\"answers\":[{}],\"headline\":{shown}", all.join(","))
}

/// Every field of an answer. Times are in microseconds.
fn answer(outcome: &Outcome) -> String {
    let mut text = format!(
        "{{\"allowed\":{},\"limit\":{},\"remaining\":{},\"used\":{},\"charged\":{},\"now\":{},\"source\":\"{}\",\"bound\":{}",
        outcome.allowed(),
        outcome.limit(),
        outcome.remaining(),
        outcome.used(),
        outcome.charged(),
        outcome.now().as_micros(),
        outcome.source().name(),
        or_null(outcome.bound().map(u128::from)),
    );
    let retry_after = or_null(outcome.retry_after().map(|wait| wait.as_micros()));
    let reset_after = outcome.reset_after().as_micros();
    let expires_at = or_null(outcome.expires_at().map(|at| at.as_micros().into()));
    let _ = write!(
        text,
        ",\"retry_after\":{retry_after},\"reset_after\":{reset_after},\"expires_at\":{expires_at}}}"
    );
    text
}

fn or_null(number: Option<u128>) -> String {
    number.map_or_else(|| "null".to_owned(), |number| number.to_string())
}
