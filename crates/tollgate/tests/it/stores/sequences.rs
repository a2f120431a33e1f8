//! Tests of random sequences of all calls on several limits and keys. Each answer must equal that
//! of the pure functions in every field.

use std::collections::HashSet;
use std::time::Duration;

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tollgate::algorithm::Op;
use tollgate::{
    Decision, Limit, Limiter, ManualClock, Outcome, Policy, Receipt, Timestamp, hit_all_at,
};

use super::calls::{Amount, AnyKey, Call, Case, LIMITS, On, any_case};
use super::{START, Settings, Subject, supported};
use tollgate_testkit::model::{Model, Share, headline, same};

/// Runs a case on a store and on a model, which uses the pure functions, at the same time.
struct Replay<S: Subject> {
    store: S,
    clock: ManualClock,
    model: Model,
    limits: Vec<Limit>,
    limiters: Vec<Limiter<S>>,
    /// A policy of the limits of the case that have different counters, and their indexes.
    policy: (Limiter<S>, Vec<usize>),
    receipts: Vec<(On, Receipt)>,
    policy_decisions: Vec<(usize, Decision)>,
    /// Whether time never goes back and the store is cleaned, which must not change any answer.
    forward: bool,
}

impl<S: Subject> Replay<S> {
    fn new(case: &Case, forward: bool) -> Option<Self> {
        let clock = ManualClock::new(START);
        let store = S::build(Settings::new(clock.clone()));
        let parse = |index: &usize| LIMITS[*index].parse::<Limit>().expect(LIMITS[*index]);
        let on = |limit: Limit| supported(Limiter::new(&store, "ns", limit));
        let mut limiters: Vec<_> = case.limits.iter().map(parse).filter_map(on).collect();
        if forward {
            // If two limits with the same name have different quotas, a store cleans by the one
            // that was prepared last. So only one of them is used.
            let mut seen = HashSet::new();
            limiters.retain(|limited| seen.insert(limited.limits()[0].identity()));
        }
        let limits: Vec<Limit> = limiters.iter().map(|l| l.limits()[0].clone()).collect();

        let model = Model::new(&limits);
        let first = |i: &usize| !(0..*i).any(|earlier| model.same_counter(earlier, *i));
        let of_policy: Vec<usize> = (0..limits.len()).filter(first).collect();
        let policy = Policy::new(of_policy.iter().map(|i| limits[*i].clone())).ok()?;
        let policy = supported(Limiter::new(&store, "ns", policy))?;
        let (receipts, policy_decisions) = (Vec::new(), Vec::new());
        Some(Replay {
            policy: (policy, of_policy),
            store,
            clock,
            model,
            limits,
            limiters,
            receipts,
            policy_decisions,
            forward,
        })
    }

    fn step(&mut self, now: Timestamp, call: &Call) -> Result<(), String> {
        match call {
            Call::Hit(on, amount) => self.op(now, *on, *amount, Op::Hit),
            Call::Peek(on, amount) => self.op(now, *on, *amount, Op::Peek),
            Call::Take(on, amount) => self.op(now, *on, *amount, Op::Take),
            Call::Charge(on, amount) => self.op(now, *on, *amount, Op::Charge),
            Call::RefundUnits(on, amount) => self.op(now, *on, *amount, Op::RefundUnits),
            Call::Set(on, amount) => self.op(now, *on, *amount, Op::Set),
            Call::Refund(index) => {
                let index = self.receipts.len().checked_sub(index + 1);
                let Some((on, receipt)) = index.map(|i| self.receipts[i]) else { return Ok(()) };
                self.op(now, on, Amount::Units(0), |_| Op::Refund(receipt))
            }
            Call::Reset(on) => {
                let Some(On { limit, key }) = self.on(*on) else { return Ok(()) };
                let got = self.limiters[limit].at(now).reset(AnyKey(key));
                equal(got, self.model.reset(limit, key, now))
            }
            Call::Usage(on) => {
                let Some(On { limit, key }) = self.on(*on) else { return Ok(()) };
                let got = self.limiters[limit].usage(AnyKey(key));
                equal(got, self.model.apply(limit, key, now, Op::Peek(1)).used())
            }
            Call::Clear(limit) => {
                let Some(limiter) = self.limiters.get(*limit) else { return Ok(()) };
                limiter.clear();
                self.model.clear(*limit);
                Ok(())
            }
            Call::Each(limit, keys) => self.each(now, *limit, keys),
            Call::All(items) => self.all(now, items),
            Call::Sweep if self.forward => {
                self.store.sweep();
                Ok(())
            }
            Call::Sweep => Ok(()),
            _ => self.policy_step(now, call),
        }
    }

    /// Returns `on` if its limit exists, because the store may not support some limits of the case.
    fn on(&self, on: On) -> Option<On> {
        (on.limit < self.limiters.len()).then_some(on)
    }

    /// Returns whether the store can count this many more units.
    fn countable(&mut self, on: On, now: Timestamp, amount: u64) -> bool {
        let most = S::COUNTS.saturating_mul(self.model.capacity(on.limit));
        let used = self.model.apply(on.limit, on.key, now, Op::Peek(0)).used();
        used.saturating_add(amount) <= most
    }

    fn op(
        &mut self,
        now: Timestamp,
        on: On,
        amount: Amount,
        op: impl Fn(u64) -> Op,
    ) -> Result<(), String> {
        let Some(on) = self.on(on) else { return Ok(()) };
        let amount = amount.of(self.model.capacity(on.limit));
        if !self.countable(on, now, amount) {
            return Ok(());
        }
        let (at, key) = (self.limiters[on.limit].at(now), AnyKey(on.key));
        let got = match op(amount) {
            Op::Hit(1) => at.hit(key),
            Op::Hit(cost) => at.hit_n(key, cost),
            Op::Peek(1) => at.peek(key),
            Op::Peek(cost) => at.peek_n(key, cost),
            Op::Take(cost) => at.take(key, cost),
            Op::Charge(units) => at.charge(key, units),
            Op::Refund(receipt) => at.refund_receipts(key, &[receipt]),
            Op::RefundUnits(units) => at.refund_n(key, units),
            Op::Set(units) => at.set(key, units),
            other => return Err(format!("no call for {other:?}")),
        };
        let wanted = self.model.apply(on.limit, on.key, now, op(amount));
        self.receipts.push((on, wanted.receipt()));
        same(got.outcomes(), &[wanted])
    }

    fn each(&mut self, now: Timestamp, limit: usize, keys: &[usize]) -> Result<(), String> {
        let Some(limiter) = self.limiters.get(limit) else { return Ok(()) };
        let keys: Vec<AnyKey> = keys.iter().copied().map(AnyKey).collect();
        let mut got = Vec::new();
        let mut indices = Vec::new();
        limiter.at(now).hit_each(&keys, |index, decision| {
            indices.push(index);
            got.push(*decision.headline());
        });
        equal(indices, (0..keys.len()).collect())?;
        let hit = |key: &AnyKey| self.model.apply(limit, key.0, now, Op::Hit(1));
        same(&got, &keys.iter().map(hit).collect::<Vec<_>>())
    }

    /// Returns the shares (hits on single limits) of an item: those of all limits of the policy for
    /// limit 0, and none for a limit that the store does not support.
    fn shares(&self, item: &(On, Amount)) -> Vec<Share> {
        let (On { limit, key }, amount) = *item;
        let limits = match limit {
            0 => &self.policy.1[..],
            _ if limit < self.limiters.len() => &[limit],
            _ => return vec![],
        };
        let cost = amount.of(self.model.capacity(limits[0]));
        limits.iter().map(|limit| Share { limit: *limit, key, cost }).collect()
    }

    fn all(&mut self, now: Timestamp, items: &[(On, Amount)]) -> Result<(), String> {
        let items: Vec<_> = items.iter().filter(|i| !self.shares(i).is_empty()).collect();
        let shares: Vec<Share> = items.iter().flat_map(|i| self.shares(i)).collect();
        if !self.all_countable(now, &shares) {
            return Ok(());
        }
        let make = |item: &&(On, Amount)| {
            let share = self.shares(item)[0];
            let key = AnyKey(share.key);
            match item.0.limit {
                0 => self.policy.0.item(key, share.cost),
                _ => self.limiters[share.limit].item(key, share.cost),
            }
        };
        let made: Vec<_> = items.iter().map(make).collect();
        let got = hit_all_at(&made, now);
        drop(made);
        let same_place =
            |a: &Share, b: &Share| a.key == b.key && self.model.same_counter(a.limit, b.limit);
        let twice =
            (0..shares.len()).any(|i| shares[..i].iter().any(|s| same_place(s, &shares[i])));
        let Ok(got) = got else { return equal(twice || shares.is_empty(), true) };
        equal(twice || shares.is_empty(), false)?;
        let wanted = self.model.together(&shares, now);
        equal(got.allowed(), wanted.iter().all(Outcome::allowed))?;
        let waits = wanted.iter().map(|d| d.retry_after().unwrap_or(Duration::MAX));
        equal(got.retry_after().unwrap_or(Duration::MAX), waits.max().unwrap_or_default())?;
        same(got.outcomes(), &wanted)
    }

    fn all_countable(&mut self, now: Timestamp, shares: &[Share]) -> bool {
        shares.iter().all(|s| self.countable(On { limit: s.limit, key: s.key }, now, s.cost))
    }

    fn policy_step(&mut self, now: Timestamp, call: &Call) -> Result<(), String> {
        let limits = self.policy.1.clone();
        let capacity = limits.iter().map(|i| self.model.capacity(*i)).min().unwrap_or(1);
        let (key, amount, op): (usize, _, fn(u64) -> Op) = match call {
            Call::PolicyHit(key, amount) => (*key, *amount, Op::Hit),
            Call::PolicyPeek(key, amount) => (*key, *amount, Op::Peek),
            Call::PolicyCharge(key, amount) => (*key, *amount, Op::Charge),
            Call::PolicySet(key, amount) => (*key, *amount, Op::Set),
            Call::PolicyReset(key) => {
                let got = self.policy.0.reset(AnyKey(*key));
                let each = |limit: &usize| self.model.reset(*limit, *key, now);
                return equal(got, limits.iter().map(each).fold(false, |any, one| any | one));
            }
            Call::PolicyRefund(index) => return self.policy_refund(now, *index),
            _ => return Ok(()),
        };
        let cost = amount.of(capacity);
        let shares: Vec<Share> =
            limits.iter().map(|limit| Share { limit: *limit, key, cost }).collect();
        if !self.all_countable(now, &shares) {
            return Ok(());
        }
        let limiter = &self.policy.0;
        let got = match op(cost) {
            Op::Hit(cost) => limiter.at(now).hit_n(AnyKey(key), cost),
            Op::Peek(cost) => limiter.peek_n(AnyKey(key), cost),
            Op::Charge(units) => limiter.charge(AnyKey(key), units),
            _ => limiter.set(AnyKey(key), cost),
        };
        let wanted = match op(cost) {
            Op::Hit(_) => self.model.together(&shares, now),
            op => limits.iter().map(|limit| self.model.apply(*limit, key, now, op)).collect(),
        };
        self.policy_decisions.push((key, got.clone()));
        same_policy(&got, &wanted)
    }

    fn policy_refund(&mut self, now: Timestamp, index: usize) -> Result<(), String> {
        let Some(index) = self.policy_decisions.len().checked_sub(index + 1) else { return Ok(()) };
        let (key, decision) = self.policy_decisions[index].clone();
        let got = self.policy.0.refund(AnyKey(key), &decision);
        let limits = self.policy.1.clone();
        let refund = |(limit, receipt): (&usize, Receipt)| {
            self.model.apply(*limit, key, now, Op::Refund(receipt))
        };
        let wanted: Vec<_> = limits.iter().zip(decision.receipts()).map(refund).collect();
        same_policy(&got, &wanted)
    }
}

fn same_policy(got: &Decision, wanted: &[Outcome]) -> Result<(), String> {
    same(got.outcomes(), wanted)?;
    equal(got.allowed(), wanted.iter().all(Outcome::allowed))?;
    same(&[*got.headline()], headline(wanted).map(std::slice::from_ref).unwrap_or_default())?;
    equal(got.retry_after(), got.headline().retry_after())
}

#[expect(clippy::needless_pass_by_value, reason = "the arguments are those of assert_eq")]
fn equal<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("got {got:?}, wanted {wanted:?}")) }
}

/// Runs a case on a new store. The error describes the first answer that differs.
pub(super) fn replay<S: Subject>(case: &Case, forward: bool) -> Result<(), String> {
    let Some(mut replay) = Replay::<S>::new(case, forward) else { return Ok(()) };
    let mut now = START;
    for (index, (tick, call)) in case.calls.iter().enumerate() {
        now = tick.from(now, forward);
        replay.clock.set(now);
        replay.step(now, call).map_err(|why| {
            let limits: Vec<String> = replay.limits.iter().map(Limit::to_string).collect();
            format!("{limits:?}\ncall {index} at {now}: {call:?}\n{why}")
        })?;
    }
    Ok(())
}

/// Runs `check` on random cases, and panics with the smallest case that fails.
pub(super) fn for_any_case(cases: u32, check: impl Fn(&Case) -> Result<(), String>) {
    let default = Config::default();
    // The environment may ask for more cases.
    let cases = cases.max(if default.cases == 256 { 0 } else { default.cases });
    let config = Config { cases, failure_persistence: None, ..default };
    let run =
        TestRunner::new(config).run(&any_case(), |case| check(&case).map_err(TestCaseError::fail));
    if let Err(failure) = run {
        panic!("{failure}");
    }
}

pub(super) fn answers_equal_those_of_the_pure_functions<S: Subject>() {
    for_any_case(400, |case| replay::<S>(case, false));
}
